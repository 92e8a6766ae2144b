package cli

import (
	"errors"
	"os"

	"golang.org/x/term"
)

// OpenTerminal returns the terminal that two files are of; false where one of them is not of a terminal that the cursor can be moved on.
func OpenTerminal(in, out *os.File) (Terminal, bool) {
	of := func(f *os.File) (is bool) {
		_ = control(f, func(fd int) { is = term.IsTerminal(fd) })
		return is
	}
	if !of(in) || !of(out) || os.Getenv("TERM") == "dumb" {
		return nil, false
	}
	return tty{in, out}, true
}

// control does something with the number of a file. [os.File.Fd] would take its deadlines away.
func control(f *os.File, do func(fd int)) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return c.Control(func(fd uintptr) { do(int(fd)) })
}

type tty struct{ in, out *os.File }

// Raw implements [Terminal].
func (t tty) Raw() (restore func() error, err error) {
	var before *term.State
	if failed := control(t.in, func(fd int) { before, err = term.MakeRaw(fd) }); failed != nil || err != nil {
		return nil, errors.Join(failed, err)
	}
	return func() (err error) {
		failed := control(t.in, func(fd int) { err = term.Restore(fd, before) })
		return errors.Join(failed, err)
	}, nil
}

// Size implements [Terminal].
func (t tty) Size() (width, height int) {
	var err error
	if failed := control(t.out, func(fd int) { width, height, err = term.GetSize(fd) }); failed != nil || err != nil {
		return 0, 0
	}
	return width, height
}
