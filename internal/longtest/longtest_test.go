package longtest

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	_ "pgregory.net/rapid" // has the flag that Checks sets
)

const child = "LONGTEST_CHILD"

func TestMain(m *testing.M) {
	Checks(3, 7)
	Parallel(5)
	m.Run()
}

// TestForm is what a child runs.
func TestForm(t *testing.T) {
	if os.Getenv(child) == "" {
		t.Skip("this is not the child")
	}
	t.Log("checks", flag.Lookup("rapid.checks").Value, "at once", flag.Lookup("test.parallel").Value, "times", Times(1, 2))
	Only(t, "what is long")
	t.Log("it was run")
}

func TestTheFormIsThatWhichWasAskedFor(t *testing.T) {
	for args, want := range map[string][]string{
		"":                                  {"checks 3 at once 5 times 1", "what is long: in the long form"},
		"-long":                             {"checks 7 at once 5 times 2", "it was run"},
		"-rapid.checks=9 -test.parallel=11": {"checks 9 at once 11 times 1"},
	} {
		path, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), path, append([]string{"-test.run=^TestForm$", "-test.v"}, strings.Fields(args)...)...)
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
		for _, w := range want {
			if !strings.Contains(string(out), w) {
				t.Errorf("with %q there is no %q in\n%s", args, w, out)
			}
		}
		if args == "" && strings.Contains(string(out), "it was run") {
			t.Errorf("a long test was run: %s", out)
		}
	}
}
