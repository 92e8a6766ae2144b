package web

import "time"

// engineRetry is when those are told to come back who come while the engine is away.
const engineRetry = 2 * time.Second

// engineAway says whether there is an engine that is away.
func (s *Server) engineAway() bool { return s.o.Engine != nil && s.o.Engine.Away() }
