//go:build !race

package logs

// raced says that the tests run under the race detector.
const raced = false
