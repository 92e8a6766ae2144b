//go:build unix

package cli

import (
	"fmt"

	"golang.org/x/term"
)

// termios is what [term] knows of a terminal.
func termios(fd int) string {
	s, err := term.GetState(fd)
	return fmt.Sprintf("%+v %v", s, err)
}
