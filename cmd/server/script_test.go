package main

import (
	"io"
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

// repository is the folder of the repository: tests change the current folder.
var repository = func() string {
	folder, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return folder
}()

// settingVariables are the variables of all settings.
var settingVariables = func() (all []string) {
	for _, s := range config.Settings() {
		all = append(all, s.Variables()...)
	}
	return all
}()

// isSetting says whether a variable of the environment changes what lingserve does.
func isSetting(name string) bool {
	return strings.HasPrefix(name, "LINGSERVE_") || slices.Contains(settingVariables, name)
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

// commandIn runs lingserve in this process, in a folder and with only these settings in the environment.
func commandIn(dir string, environ []string, stdin io.Reader, stdout, stderr io.Writer, args ...string) (status int, err error) {
	oneAtATime.Lock()
	defer oneAtATime.Unlock()
	folder, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	if err := os.Chdir(dir); err != nil {
		return 0, err
	}
	before := os.Environ()
	for _, kv := range before { // the others stay: parallel tests start programs
		if name, _, _ := strings.Cut(kv, "="); isSetting(name) {
			os.Unsetenv(name)
		}
	}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		os.Setenv(name, value)
	}
	defer func() {
		for _, kv := range environ {
			name, _, _ := strings.Cut(kv, "=")
			os.Unsetenv(name)
		}
		for _, kv := range before {
			name, value, _ := strings.Cut(kv, "=")
			os.Setenv(name, value)
		}
		err = os.Chdir(folder)
	}()
	return command(args, stdin, stdout, stderr), nil
}

// inProcess is the command "call lingserve", which starts no process and takes a few milliseconds; "exec lingserve" is for what needs
// standard input, signals or a server.
func inProcess(ts *testscript.TestScript, neg bool, args []string) {
	var environ []string
	for _, name := range slices.Concat(scriptVariables, settingVariables) {
		if value := ts.Getenv(name); value != "" || slices.Contains(scriptVariables, name) {
			environ = append(environ, name+"="+value)
		}
	}
	status, err := commandIn(ts.MkAbs("."), environ, strings.NewReader(""), ts.Stdout(), ts.Stderr(), args[1:]...)
	ts.Check(err)
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
