package web

import "time"

// Engine is what several servers share: where runs and sessions are kept.
type Engine interface {
	// Away says that nothing can be kept there now, and has not been for a moment.
	Away() bool
}

// engineRetry is when those are told to come back who come while the engine is away: most often a leader is elected, or a connection made.
const engineRetry = 2 * time.Second

// limitEngine is the word for it in the log and in metrics.
const limitEngine = "engine_away"

// engineAway says whether there is an engine that is away.
func (s *Server) engineAway() bool { return s.o.Engine != nil && s.o.Engine.Away() }

// noEngine refuses what is new while the engine is away (CL-10): nobody could come back to it. What goes on is not touched.
func (s *Server) noEngine() *problem {
	if !s.engineAway() {
		return nil
	}
	return reached(limitEngine, "the server cannot reach its store of runs and starts no new runs; retry later", engineRetry)
}
