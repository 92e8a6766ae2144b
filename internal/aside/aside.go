// Package aside keeps the stacks of long-lived goroutines small.
package aside

import (
	"fmt"
	"net/http"
	"runtime/debug"
)

// Run calls f on the stack of another goroutine and waits for it. A stack that has grown hardly ever shrinks again, and what the beginning of an
// answer takes would stay for as long as the answer is read or written, for thousands of goroutines. A panic of f is the caller's, as an error
// with the stack of f; [http.ErrAbortHandler] stays as it is.
func Run(f func()) {
	over := make(chan any, 1)
	go func() {
		defer func() {
			p := recover()
			if p != nil && p != http.ErrAbortHandler {
				cause, ok := p.(error)
				if !ok {
					cause = fmt.Errorf("%v", p)
				}
				p = fmt.Errorf("%w\n%s", cause, debug.Stack())
			}
			over <- p
		}()
		f()
	}()
	if p := <-over; p != nil {
		panic(p)
	}
}
