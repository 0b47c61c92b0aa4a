// Package fault classifies errors where they arise, so that a reconciler can decide from the class alone.
package fault

import (
	"errors"
	"fmt"
)

// Class says what a reconciler does about an error.
type Class int

const (
	// Transient errors are tried again with back-off until the deadline. It is the class of every error that nobody classified.
	Transient Class = iota
	// Terminal errors never heal by waiting: the job fails with the reason.
	Terminal
	// Waiting means that something outside has not happened yet and a watch will tell when it does.
	Waiting
	// Conflict means that the object changed under us: read again and decide anew.
	Conflict
)

// Error is an error with its class and a condition reason (CamelCase, a constant of the API package).
type Error struct {
	Class  Class
	Reason string
	Err    error
}

// Error returns the message without class and reason.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Terminalf makes a terminal error with a reason.
func Terminalf(reason, format string, args ...any) error {
	return &Error{Class: Terminal, Reason: reason, Err: fmt.Errorf(format, args...)}
}

// Waitingf makes a waiting error with a reason that names the blocker.
func Waitingf(reason, format string, args ...any) error {
	return &Error{Class: Waiting, Reason: reason, Err: fmt.Errorf(format, args...)}
}

// Transientf makes a transient error with a reason.
func Transientf(reason, format string, args ...any) error {
	return &Error{Class: Transient, Reason: reason, Err: fmt.Errorf(format, args...)}
}

// Conflictf makes a conflict error with a reason.
func Conflictf(reason, format string, args ...any) error {
	return &Error{Class: Conflict, Reason: reason, Err: fmt.Errorf(format, args...)}
}

// ClassOf returns the class of err; an unclassified error is Transient.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Transient
}

// ReasonOf returns the reason of err, or fallback for an unclassified error.
func ReasonOf(err error, fallback string) string {
	var e *Error
	if errors.As(err, &e) && e.Reason != "" {
		return e.Reason
	}
	return fallback
}
