package web

import "time"

// databaseRetry is when those are told to come back who come while the database is away.
const databaseRetry = 2 * time.Second

// databaseAway says whether the database is away.
func (s *Server) databaseAway() bool { return s.o.Away != nil && s.o.Away() }
