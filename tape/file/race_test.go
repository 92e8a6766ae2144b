//go:build race

package file

// raced says that the tests run under the race detector.
const raced = true
