package main

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/systemd/systemdtest"
)

func TestSystemdIsToldOfTheStartAndTheEnd(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no systemd")
	}
	path, next := systemdtest.Listen(t)
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "100000")
	p := startServer(t)
	if got, want := next(), "READY=1\nSTATUS=serving "+p.base; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if got := next(); got != "WATCHDOG=1" {
		t.Errorf("it says %q", got)
	}
	p.signal(os.Interrupt)
	got := next()
	for got == "WATCHDOG=1" {
		got = next()
	}
	if !strings.HasPrefix(got, "STOPPING=1\n") || !strings.Contains(got, "\nEXTEND_TIMEOUT_USEC=30000000") {
		t.Errorf("it says %q", got)
	}
	if code := p.wait(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}
