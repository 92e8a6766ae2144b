//go:build !linux

package main

import (
	"errors"
	"time"
)

func clock(time.Duration) error { return errors.New("there is no clock of this kind but on Linux") }
