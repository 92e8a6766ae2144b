package memlimit

import (
	"math"
	"runtime"
	"testing"
)

func TestTheMemoryLimitIsTheSettingOrElseThatOfTheSystem(t *testing.T) {
	const none = math.MaxInt64
	for name, tt := range map[string]struct {
		setting, goLimit, container, machine int64
		limit, soft                          int64
		source                               string
	}{
		"nothing is known":                        {0, none, 0, 0, 0, 0, "none"},
		"a container":                             {0, none, 1000 << 20, 0, 1000 << 20, 900 << 20, "container"},
		"a small container":                       {0, none, 192 << 20, 0, (160 << 20) / 9 * 10, 160 << 20, "container"},
		"a tiny container":                        {0, none, 48 << 20, 0, (24 << 20) / 9 * 10, 24 << 20, "container"},
		"GOMEMLIMIT before a container":           {0, 700, 1000, 0, 700, 0, "GOMEMLIMIT"},
		"the setting before both":                 {500 << 20, none, 1000 << 20, 0, 500 << 20, 450 << 20, "limit.memory"},
		"the setting, GOMEMLIMIT for the garbage": {500, 700, 1000, 0, 500, 0, "limit.memory"},
		"half of the machine":                     {0, none, 0, 2000 << 20, 1000 << 20, 900 << 20, "machine"},
		"a container before the machine":          {0, none, 1500 << 20, 2000 << 20, 1500 << 20, 1350 << 20, "container"},
		"a container with more than there is":     {0, none, 4000 << 20, 2000 << 20, 1000 << 20, 900 << 20, "machine"},
		"a container with a limit that is no one": {0, none, none, 2000 << 20, 1000 << 20, 900 << 20, "machine"},
		"GOMEMLIMIT before the machine":           {0, 700, 0, 2000, 700, 0, "GOMEMLIMIT"},
	} {
		t.Run(name, func(t *testing.T) {
			limit, soft, source := choose(tt.setting, tt.goLimit, tt.container, tt.machine)
			if limit/10 != tt.limit/10 || soft/10 != tt.soft/10 || source != tt.source {
				t.Errorf("%d and %d from %s; expected %d and %d from %s", limit, soft, source, tt.limit, tt.soft, tt.source)
			}
		})
	}
}

func TestTheNumberOfConnectionsFollowsTheNumberOfFiles(t *testing.T) {
	for files, want := range map[uint64]int{
		0: 16_384, 1: 1, 64: 16, 256: 64, 1024: 448, 20_000: 9936, 1 << 20: 32_768, math.MaxUint64: 32_768,
	} {
		if got := Connections(files); got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
	}
	if files := OpenFiles(); files == 0 {
		t.Skip("this system does not say")
	}
}

func TestUsedMemoryIsWhatLivesWithoutGarbage(t *testing.T) {
	const size = 64 << 20
	runtime.GC()
	before := Used()
	kept := make([]byte, size)
	runtime.GC()
	with := Used()
	if grown := with - before; grown < size/2 {
		t.Errorf("it has grown by %d", grown)
	}
	runtime.KeepAlive(kept)
	kept = nil
	runtime.GC()
	if after := Used(); with-after < size/2 {
		t.Errorf("from %d to %d", with, after)
	}
}
