package web

import (
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

// Observer counts what the server does. Its methods, and those of their results, are called synchronously and from many goroutines: they must
// not block.
//
// It gets no id, no address and no text of users, except the name of a workflow that a request brings.
type Observer interface {
	run.Observer
	wire.Observer
	// Requested is called when the answer to a request has ended.
	Requested(e Exchange)
}

// CompletionWorkflow is the name of the workflow that stands for a chat completion, of which no workflow is configured.
const CompletionWorkflow = run.CompletionName

// RunObserver observes one run.
type RunObserver = run.RunObserver

// Exchange is a request and its answer, as far as metrics are concerned.
type Exchange struct {
	Method string // one of those that routes have, or "other"
	Route  string // a pattern, as /v1/runs/{run}; "other" for what leads nowhere
	Status int
	Bytes  int64         // of the body that was answered
	Took   time.Duration // to the end of the answer
	Reason string        // a word that says why it was refused; "" for one that was not
	Broken bool          // the answer has no clean end
}

// unobserved counts nothing.
type (
	unobserved       struct{}
	unobservedRun    struct{}
	unobservedStream struct{}
)

func (unobserved) Run(string, string) RunObserver    { return unobservedRun{} }
func (unobserved) Stream(string) wire.StreamObserver { return unobservedStream{} }
func (unobserved) Resumed(string)                    {}
func (unobserved) Requested(Exchange)                {}
func (unobservedRun) First()                         {}
func (unobservedRun) End(string, string)             {}
func (unobservedStream) Wrote(int, int)              {}
func (unobservedStream) End(string, int)             {}

// Load is what a server has to do.
type Load struct {
	run.Load
	Overloaded []string // names of what there is too much of: memory, disk, runs, streams

	Connections int    // that are open
	TurnedAway  uint64 // closed because their address had too many

	Memory adapter.Holdings // that answers of models have paid for
}

// Load returns what the server has to do now.
func (s *Server) Load() Load {
	return Load{
		Load: s.runs.Load(), Overloaded: s.overloaded(), Memory: s.o.Ledger.Holdings(),
		Connections: int(s.connections.count()), TurnedAway: s.connections.refused.Load(),
	}
}
