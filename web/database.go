package web

import "time"

// databaseRetry is the Retry-After while the database is unavailable.
const databaseRetry = 2 * time.Second

// databaseAway reports whether the database is unavailable.
func (s *Server) databaseAway() bool { return s.o.Away != nil && s.o.Away() }
