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

func TestEnvironmentSelectsForm(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		nightly, args string
		want, without string
	}{
		"short":   {"", "", "checks 3 at once 5 times 1", "it was run"},
		"long":    {"1", "", "checks 7 at once 5 times 2", "SKIP"},
		"by hand": {"", "-rapid.checks=9 -test.parallel=11", "checks 9 at once 11 times 1", "it was run"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), path, append([]string{"-test.run=^TestForm$", "-test.v"}, strings.Fields(c.args)...)...)
			cmd.Env = append(os.Environ(), child+"=1", "LINGSERVE_NIGHTLY="+c.nightly)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) || strings.Contains(string(out), c.without) {
				t.Errorf("%v: expected %q and not %q in\n%s", err, c.want, c.without, out)
			}
		})
	}
}
