package run

import "time"

// Codes of errors, in events and in what replicas tell each other.
const (
	codeInvalid     = "invalid_request"
	codeForbidden   = "forbidden"
	codeNotFound    = "not_found"
	codeGone        = "gone"
	codeConflict    = "conflict"
	codeTooLarge    = "too_large"
	codeRateLimited = "rate_limited"
	codeOverloaded  = "overloaded"
	codeDraining    = "draining"
	codeInternal    = "internal"
	codeCrashed     = "crashed"
)

// Words for the log and for metrics that say which limit was reached.
const (
	LimitMemory   = "limit_memory"
	LimitAllRuns  = "limit_all_runs"
	LimitInput    = "limit_input"
	LimitImages   = "limit_images"
	LimitQueue    = "limit_queue"
	LimitSessions = "limit_sessions"
	LimitDisk     = "limit_disk_free"
	LimitEngine   = "engine_away"
)

// How long those who are refused are told to wait.
const (
	memoryRetry   = 10 * time.Second
	DiskRetry     = 30 * time.Second // somebody has to make room
	SessionsRetry = 30 * time.Second // sessions do not end by themselves
)

// mostMedia is how many bytes of files one request may name.
const mostMedia = 20 << 20

// maxMisfits bounds what one error says.
const maxMisfits = 20

const drainingMessage = "the server is shutting down and starts no new runs; retry on another server, or later"

// diskFull is the error of what a disk that has failed would have to keep.
func diskFull() *Error {
	return overLimit(LimitDisk, "the server's disk is full or has failed, so it refuses sessions and requests with an Idempotency-Key; retry later", DiskRetry)
}
