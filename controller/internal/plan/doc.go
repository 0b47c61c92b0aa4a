// Package plan makes a BackupJob at each tick of a Plan's schedule. STATES.md lists the states and what a schedule may say.
package plan
