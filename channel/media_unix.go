//go:build unix

package channel

import (
	"os"
	"syscall"
)

// openMedia opens without waiting: a pipe has no writer.
const openMedia = os.O_RDONLY | syscall.O_NONBLOCK
