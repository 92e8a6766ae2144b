package memlimit

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// asked is a file system in which every file of a group says the same, and which notes what it is asked for.
type asked struct {
	groups, limit string
	names         []string
}

func (a *asked) Open(name string) (fs.File, error) {
	a.names = append(a.names, name)
	text := a.limit
	if name == "proc/self/cgroup" {
		text = a.groups
	}
	return fstest.MapFS{name: {Data: []byte(text)}}.Open(name)
}

// Whatever the system says of groups, only files of groups are looked at, no more of them than the paths have parts, and what comes of
// it is a limit that stands in them, or none.
func FuzzContainer(f *testing.F) {
	for _, groups := range []string{"0::/\n", "12:cpu,cpuacct:/docker/abc\n5:memory:/docker/abc\n0::/\n", "0::/../../x", "0::a//b/./..\n::\n0", "9:memory:/a:b"} {
		f.Add(groups, "536870912\n")
		f.Add(groups, "max")
	}
	f.Add("0::/a", "1152921504606846976")
	f.Add("0::/a", "-1")
	f.Fuzz(func(t *testing.T, groups, limit string) {
		system := &asked{groups: groups, limit: limit}
		got := Container(system)
		for _, name := range system.names {
			if name != "proc/self/cgroup" && (!fs.ValidPath(name) && strings.ToValidUTF8(name, "") == name || !strings.HasPrefix(name, "sys/fs/cgroup/")) {
				t.Errorf("%q was opened", name)
			}
		}
		if most := 1 + len(groups) + strings.Count(groups, "\n") + 1; len(system.names) > most {
			t.Errorf("%d files were opened for %q", len(system.names), groups)
		}
		if want := read(fstest.MapFS{"x": {Data: []byte(limit)}}, "x"); got != want && got != 0 || got < 0 || got >= unlimited {
			t.Errorf("%d, %q says %d", got, limit, want)
		}
	})
}
