// Package channels measures what a channel's events cost on their way through a door, the journal and the kernel. It holds a test
// of a load that has to hold; benchmarks of a single package are beside its code. The README has the figures.
package channels
