// Package turns measures what a turn, a tape and a session cost. It holds benchmarks only; those of a single package are beside
// its code. The README has the figures and says where each benchmark is.
package turns
