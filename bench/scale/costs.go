package main

// costs are what one of something needs. Memory and disk are of each server.
type costs struct {
	// Bytes of memory that a server has in use for each subject.
	tapeSubject, runSubject, keySubject float64
	// index is the memory of each replica for a session, where sessions are listed or counted.
	index float64

	// Bytes on disk: of a session that has begun, of a turn on its tape, of a run without its tokens, of a token, and of a key.
	sessionDisk, turnDisk, runDisk, tokenDisk, keyDisk float64

	// Messages that are stored, of a turn.
	turnAppends, turnLeases float64

	// Processor time of all three servers, in µs: of a token with a reader at another replica, and of a turn.
	tokenWork, turnWork float64

	// Messages a second that one stream with three copies takes.
	streamRate float64

	// Seconds until a server has read a million subjects: one that was told to end, and one that was killed.
	restart, restartKilled float64
}

// measured is what the command has printed: sessions, runs and keys at one server with a million of each, turns, tokens and rates at three
// servers, on a virtual machine with two cores that others used as well.
var measured = costs{
	tapeSubject: 150, runSubject: 150, keySubject: 150, index: 200,
	sessionDisk: 700, turnDisk: 3000, runDisk: 500, tokenDisk: 150, keyDisk: 400,
	turnAppends: 3, turnLeases: 2,
	tokenWork: 200, turnWork: 3000,
	streamRate: 10_000,
	restart:    2, restartKilled: 20,
}
