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

	// Messages a second that one stream with three copies takes, of runs and of tapes, which are synced.
	runRate, tapeRate float64

	// Seconds until a server is back that was told to end, or killed, for a million subjects that it has.
	restart, restartKilled float64
	// Bytes a second in which one reads its data that has lost what it knew of them, or fetches them from another one.
	readRate float64
}

// measured is what the command has printed on a virtual machine with two cores, where other programs had these most of the time: subjects and
// restarts at one server with a million sessions, runs and keys whose files were in memory; turns, tokens and rates at three servers on one
// disk. readRate alone is assumed.
var measured = costs{
	tapeSubject: 200, runSubject: 200, keySubject: 200, index: 180,
	sessionDisk: 950, turnDisk: 3530, runDisk: 450, tokenDisk: 171, keyDisk: 540,
	turnAppends: 3.3, turnLeases: 2,
	tokenWork: 60, turnWork: 10_000,
	runRate: 14_000, tapeRate: 3_300,
	restart: 0.6, restartKilled: 2,
	readRate: 300e6,
}
