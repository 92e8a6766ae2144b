// Package heavy bounds how many large texts are worked on at once.
//
// Decoding a request of a megabyte takes a processor for tens of milliseconds. If hundreds came at once, each short request would wait until
// all of them had had their turns. So one processor is left for everything else, wherever there is more than one.
package heavy

import "runtime"

// Large is the size from which on a text is a large one, in bytes.
const Large = 64 << 10

// slots has one element for each large text that is worked on.
var slots = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// Do calls work, which reads or writes a text of so many bytes. A large text waits for its turn, first come, first served. work must use the
// processor only: it must not wait for anything, and it must not call Do.
func Do(bytes int, work func()) {
	if bytes >= Large {
		slots <- struct{}{}
		defer func() { <-slots }()
	}
	work()
}
