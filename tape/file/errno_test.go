package file

import "syscall"

var errNoSpace error = syscall.ENOSPC
