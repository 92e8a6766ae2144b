package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lingserve/lingserve/internal/config"
)

// TestMain lets the test binary be lingserve itself: the scripts, and the tests that need a process, start it by that name.
func TestMain(m *testing.M) {
	// The race detector lets each process sleep for a second before it ends; there are many here.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	testscript.Main(m, map[string]func(){"lingserve": main})
}

// isSetting says whether a variable of the environment changes what lingserve does.
func isSetting(name string) bool {
	return strings.HasPrefix(name, "LINGSERVE_") ||
		slices.ContainsFunc(config.Settings(), func(s config.Setting) bool { return slices.Contains(s.Variables(), name) })
}

// cleanEnvironment is that of the tests without what the machine is set up with.
func cleanEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return isSetting(name)
	})
}

// scriptVariables are the variables of the environment, other than settings, that scripts set.
var scriptVariables = []string{"NO_COLOR", "TERM", "HOME", "LINGSERVE_KEY", "MINE", "TZ"}

// oneAtATime guards the folder and the environment of this process.
var oneAtATime sync.Mutex

// inProcess is the command "call lingserve": it runs lingserve in this process, in the folder and the environment of a script. It starts no process, so it takes a few
// milliseconds; "exec lingserve" is for what needs standard input, signals or a server.
func inProcess(ts *testscript.TestScript, neg bool, args []string) {
	oneAtATime.Lock()
	defer oneAtATime.Unlock()
	folder, err := os.Getwd()
	ts.Check(err)
	ts.Check(os.Chdir(ts.MkAbs(".")))
	before := os.Environ()
	defer func() {
		os.Clearenv()
		for _, kv := range before {
			name, value, _ := strings.Cut(kv, "=")
			os.Setenv(name, value)
		}
		ts.Check(os.Chdir(folder))
	}()
	names := slices.Clone(scriptVariables)
	for _, s := range config.Settings() {
		names = append(names, s.Variables()...)
	}
	for _, name := range names {
		if value := ts.Getenv(name); value != "" {
			os.Setenv(name, value)
		} else {
			os.Unsetenv(name)
		}
	}
	status := command(args[1:], strings.NewReader(""), ts.Stdout(), ts.Stderr())
	if neg != (status != exitOK) {
		ts.Fatalf("lingserve ended with status %d", status)
	}
}

func TestScripts(t *testing.T) {
	scripts, err := filepath.Abs("testdata/script") // a command in this process changes the folder
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 scripts,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("LINGSERVE_DEMO_PACE", "0")
			// What the machine is set up with must not change what the scripts see.
			for _, kv := range os.Environ() {
				if name, _, _ := strings.Cut(kv, "="); isSetting(name) && name != "LINGSERVE_DEMO_PACE" {
					e.Setenv(name, "")
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"call": inProcess,
			// occupy NAME listens on a port until the script ends, and puts its address into the variable NAME.
			"occupy": func(ts *testscript.TestScript, neg bool, args []string) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				ts.Check(err)
				ts.Defer(func() { l.Close() })
				ts.Setenv(args[0], l.Addr().String())
			},
			// lines FILE N checks how many lines a file or stderr has.
			"lines": func(ts *testscript.TestScript, neg bool, args []string) {
				if got := strings.Count(ts.ReadFile(args[0]), "\n"); len(args[1]) != 1 || got != int(args[1][0]-'0') {
					ts.Fatalf("%s has %d lines, want %s:\n%s", args[0], got, args[1], ts.ReadFile(args[0]))
				}
			},
		},
	})
}
