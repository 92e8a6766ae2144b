package memlimit

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"testing/fstest"
)

func TestTheLimitOfTheContainerIsFoundWhereverItStands(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, tt := range map[string]struct {
		system fstest.MapFS
		want   int64
	}{
		"no control groups": {fstest.MapFS{}, 0},
		"version 2, in a namespace of its own": {fstest.MapFS{
			"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("536870912\n"),
		}, 512 << 20},
		"version 2, no limit": {fstest.MapFS{
			"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("max\n"),
		}, 0},
		"version 2, a service within a slice that has less": {fstest.MapFS{
			"proc/self/cgroup": file("0::/system.slice/lingserve.service\n"),
			"sys/fs/cgroup/system.slice/lingserve.service/memory.max": file("2147483648\n"),
			"sys/fs/cgroup/system.slice/memory.max":                   file("1073741824\n"),
		}, 1 << 30},
		"version 2, a service without a limit of its own": {fstest.MapFS{
			"proc/self/cgroup": file("0::/system.slice/lingserve.service\n"),
			"sys/fs/cgroup/system.slice/lingserve.service/memory.max": file("max\n"),
			"sys/fs/cgroup/system.slice/memory.max":                   file("1073741824\n"),
		}, 1 << 30},
		"version 1, with the path of outside": {fstest.MapFS{
			"proc/self/cgroup":                           file("12:cpu,cpuacct:/docker/abc\n5:memory:/docker/abc\n0::/\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("268435456\n"),
		}, 256 << 20},
		"version 1, no limit": {fstest.MapFS{
			"proc/self/cgroup":                           file("5:memory:/\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n"),
		}, 0},
		"version 1, beside the second without controllers": {fstest.MapFS{
			"proc/self/cgroup": file("9:memory:/a:b\n1:name=systemd:/x\n0::/y\n"),
			"sys/fs/cgroup/memory/a:b/memory.limit_in_bytes": file("1000\n"),
		}, 1000},
		"a path that leads out of the namespace": {fstest.MapFS{
			"proc/self/cgroup": file("0::/../../x\n"), "sys/fs/cgroup/memory.max": file("77\n"),
		}, 77},
		"rubbish": {fstest.MapFS{
			"proc/self/cgroup": file("0\n\n::\nmemory\n0::/a\n"), "sys/fs/cgroup/a/memory.max": file("-5\n"), "sys/fs/cgroup/memory.max": file("much\n"),
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Container(tt.system); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
	Container(os.DirFS("/")) // whatever there is, it is no panic
}

// DO-07: where no control group has a limit, the machine has.
func TestDO_07_TheMemoryOfTheMachineIsKnown(t *testing.T) {
	for text, want := range map[string]int64{
		"MemTotal:       24683928 kB\nMemFree:        22374640 kB\n": 24683928 << 10,
		"MemFree: 3 kB\nMemTotal: 7 kB":                              7 << 10,
		"MemTotal: many kB\n":                                        0,
		"MemTotal: 7\n":                                              0,
		"MemTotal: -7 kB\n":                                          0,
		"":                                                           0,
	} {
		system := fstest.MapFS{"proc/meminfo": &fstest.MapFile{Data: []byte(text)}}
		if got := Machine(system); got != want {
			t.Errorf("%d for %q, expected %d", got, text, want)
		}
	}
	if n := Machine(os.DirFS("/")); n < 64<<20 && slices.Contains([]string{"linux", "darwin", "windows"}, runtime.GOOS) {
		t.Errorf("this machine has %d bytes; expected more", n)
	}
}

func TestTheMeterCountsWhatLivesAndNotWhatIsGarbage(t *testing.T) {
	const size = 64 << 20
	m := NewMeter()
	runtime.GC()
	before, n := m.Read()
	held := make([]byte, size)
	runtime.GC()
	with, more := m.Read()
	if grown := with - before; grown < size/2 {
		t.Errorf("it has grown by %d", grown)
	}
	if more <= n {
		t.Errorf("%d collections after %d", more, n)
	}
	runtime.KeepAlive(held)
	held = nil
	runtime.GC()
	if after, _ := m.Read(); with-after < size/2 {
		t.Errorf("from %d to %d", with, after)
	}
}

func BenchmarkMeter(b *testing.B) {
	m := NewMeter()
	b.ReportAllocs()
	for b.Loop() {
		m.Read()
	}
}
