package lock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func claim(kind, name string, minutes int) Claim {
	return Claim{Kind: kind, Name: name, UID: types.UID("uid-" + name), CreatedAt: noon.Add(time.Duration(minutes) * time.Minute)}
}

func TestC33Judge(t *testing.T) {
	restore, change, backup := claim("RestoreJob", "r", 3), claim("EtcdOpsRequest", "c", 2), claim("BackupJob", "b", 1)
	older, twin := claim("RestoreJob", "older", 2), claim("RestoreJob", "a-twin", 3)
	begun := claim("RestoreJob", "begun", 9)
	begun.Begun = true
	foreign := parseIdentity("somebody")
	for _, c := range []struct {
		name    string
		me      Claim
		holder  *Claim
		ended   bool
		waiters []Claim
		want    Verdict
	}{
		{"nobody else", backup, nil, false, nil, Verdict{}},
		{"it waits itself", backup, nil, false, []Claim{backup}, Verdict{}},
		{"it holds the lock, whoever waits", backup, &backup, false, []Claim{restore, older}, Verdict{Mine: true}},
		{"it holds the lock and has ended", backup, &backup, true, nil, Verdict{Mine: true}},
		{"a holder is never pre-empted, whatever its kind", restore, &backup, false, nil, Verdict{Ahead: `BackupJob "b" holds the lock of the application`}},
		{"a holder that has ended is passed over", restore, &backup, true, []Claim{restore}, Verdict{}},
		{"a holder of the same name and another UID is another", restore, &Claim{Kind: "RestoreJob", Name: "r", UID: "x"}, false, nil, Verdict{Ahead: `RestoreJob "r" holds the lock of the application`}},
		{"somebody else's words are no reason to break in", restore, &foreign, false, nil, Verdict{Ahead: `somebody called "somebody" holds the lock of the application`}},
		{"a restore before a change", change, nil, false, []Claim{change, restore}, Verdict{Ahead: `RestoreJob "r" of the same application goes first`}},
		{"a change before a backup", backup, nil, false, []Claim{change, backup}, Verdict{Ahead: `EtcdOpsRequest "c" of the same application goes first`}},
		{"a restore does not wait for a backup that waits", restore, nil, false, []Claim{backup, change}, Verdict{}},
		{"the older one of a kind", restore, nil, false, []Claim{restore, older}, Verdict{Ahead: `RestoreJob "older" of the same application goes first`}},
		{"the first of all is named", backup, nil, false, []Claim{restore, change, older}, Verdict{Ahead: `RestoreJob "older" of the same application goes first`}},
		{"by UID at the same second", restore, nil, false, []Claim{twin}, Verdict{Ahead: `RestoreJob "a-twin" of the same application goes first`}},
		{"not by UID against the other", twin, nil, false, []Claim{restore}, Verdict{}},
		{"one that has begun goes on, however young", restore, nil, false, []Claim{begun, older}, Verdict{Ahead: `RestoreJob "begun" of the same application goes first`}},
		{"an unknown kind comes last", backup, nil, false, []Claim{claim("Other", "o", 0)}, Verdict{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, Judge(c.me, c.holder, c.ended, c.waiters))
			require.Equal(t, c.want == Verdict{}, c.want.Free())
		})
	}
}

func TestHolderIdentityNamesKindAndUID(t *testing.T) {
	c := claim("RestoreJob", "r", 0)
	got := parseIdentity(c.identity())
	require.Equal(t, Claim{Kind: "RestoreJob", Name: "r", UID: "uid-r"}, got)
	for _, other := range []string{"x", "a/b", "a/b/c/d"} {
		require.Empty(t, parseIdentity(other).Kind, other)
	}
}
