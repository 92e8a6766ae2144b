package control

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Request is what is asked.
type Request struct {
	// ID is chosen once by who asks, with 128 random bits, and makes a request one that may be asked again: see the guarantees of the
	// package. "" is one that is sent once.
	ID      string
	Command string // what is to be done: "cancel"
	Run     string // that it is about; "" for none
	Session string // likewise
	Body    []byte // what the command needs beside
}

// Handler answers requests. Its context has the time that who asks waits for, and ends with what serves. The error may have a code, by a
// method ErrorCode() string; one without is "internal".
type Handler func(ctx context.Context, r Request) (answer []byte, err error)

// Control asks replicas, and answers for this one. It is safe for concurrent use.
type Control interface {
	// Serve answers what is asked of this replica, until stop is called, which ends the contexts of the handlers that run and waits for
	// them. There is one handler at a time: [ErrServed].
	Serve(Handler) (stop func(), err error)
	// Ask asks a replica, which may be this one, and returns its answer. Where ctx has no deadline, it waits for [Patience]. A request with
	// an ID is sent again while there is no answer. Errors, beside the cause of ctx, after which nobody knows whether it was done: [ErrGone],
	// [ErrLost], [ErrSilent], [ErrAway], [ErrTooLarge], [ErrClosed] and an [*Error].
	Ask(ctx context.Context, replica string, r Request) ([]byte, error)
	// Replica is the one that answers here.
	Replica() string
}

const (
	// Patience is how long an answer is waited for, where the one who asks does not say.
	Patience = 10 * time.Second
	// MaxBody is how many bytes the body of a request has at most, and an answer.
	MaxBody = 16 << 20
	// MaxName is how many bytes an id and a command have at most, and the names of a run and a session.
	MaxName = 1 << 10
)

// Errors that a caller may branch on.
var (
	// ErrGone says that the replica is not there, or does not serve. Nothing was done.
	ErrGone = errors.New("control: unknown replica")
	// ErrLost says that the replica went away while it was asked: nobody knows whether it has done it. It is an [ErrGone].
	ErrLost error = &lost{"control: the replica disconnected during the request"}
	// ErrSilent says that the replica has not answered in time: nobody knows whether it has done it.
	ErrSilent error = coded{codeTimeout, "control: the replica did not answer in time"}
	// ErrAway says that no other replica can be reached now. Nothing was done.
	ErrAway error = coded{codeOverloaded, "control: cannot reach the other replicas now"}
	// ErrTooLarge says that a request or an answer has more than [MaxBody] bytes.
	ErrTooLarge error = coded{"too_large", fmt.Sprintf("control: more than %d MiB", MaxBody>>20)}
	// ErrServed says that there is a handler already.
	ErrServed = errors.New("control: this replica serves already")
	// ErrClosed says that there is no connection any more.
	ErrClosed = errors.New("control: closed")
)

// Codes of errors that are made here.
const (
	codeInternal   = "internal"
	codeOverloaded = "overloaded"
	codeTimeout    = "timeout"
)

// Error is what a handler has answered in place of an answer.
type Error struct{ Code, Message string }

// Error is the text of the handler's error.
func (e *Error) Error() string { return e.Message }

// ErrorCode is the code of the handler's error.
func (e *Error) ErrorCode() string { return e.Code }

type lost struct{ text string }

func (e *lost) Error() string        { return e.text }
func (e *lost) Is(target error) bool { return target == ErrGone }

type coded struct{ code, text string }

func (e coded) Error() string     { return e.text }
func (e coded) ErrorCode() string { return e.code }

// Check says what is wrong with a request.
func (r Request) Check() error {
	if r.Command == "" {
		return errors.New("control: a request without a command")
	}
	for _, name := range []string{r.ID, r.Command, r.Run, r.Session} {
		if len(name) > MaxName {
			return fmt.Errorf("control: the name %.40q… has more than %d bytes", name, MaxName)
		}
	}
	if len(r.Body) > MaxBody {
		return ErrTooLarge
	}
	return nil
}
