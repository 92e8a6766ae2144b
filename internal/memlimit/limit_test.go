package memlimit

import (
	"math"
	"testing"
)

func TestTheMemoryLimitIsTheSettingOrElseWhatTheMachineSays(t *testing.T) {
	const none = math.MaxInt64
	for name, tt := range map[string]struct {
		setting, goLimit, container, machine int64
		limit                                int64
		from                                 string
		set                                  int64 // -1 is not
	}{
		"nobody says anything":                         {0, none, 0, 0, 0, "none", -1},
		"the container":                                {0, none, 1000 << 20, 0, 1000 << 20, "container", 900 << 20},
		"a small one, beside which the program fits":   {0, none, 192 << 20, 0, 160 << 20 / 90 * 100, "container", 160 << 20},
		"half is the least":                            {0, none, 48 << 20, 0, 24 << 20 / 90 * 100, "container", 24 << 20},
		"GOMEMLIMIT goes before the container":         {0, 700, 1000, 0, 700, "GOMEMLIMIT", -1},
		"the setting goes before both":                 {500 << 20, none, 1000 << 20, 0, 500 << 20, "limit.memory", 450 << 20},
		"and leaves GOMEMLIMIT to the one who has it":  {500, 700, 1000, 0, 500, "limit.memory", -1},
		"half of the machine, without a container":     {0, none, 0, 2000 << 20, 1000 << 20, "machine", 900 << 20},
		"the container goes before the machine":        {0, none, 1500 << 20, 2000 << 20, 1500 << 20, "container", 1350 << 20},
		"a container that may have more than there is": {0, none, 4000 << 20, 2000 << 20, 1000 << 20, "machine", 900 << 20},
		"GOMEMLIMIT goes before the machine":           {0, 700, 0, 2000, 700, "GOMEMLIMIT", -1},
	} {
		t.Run(name, func(t *testing.T) {
			set := int64(-1)
			limit, from := Limit(tt.setting, tt.goLimit, tt.container, tt.machine, func(soft int64) { set = soft })
			if limit != tt.limit || from != tt.from || set != tt.set {
				t.Errorf("%d from %s, and %d for the collector", limit, from, set)
			}
		})
	}
}

func TestThereAreAsManyConnectionsAsFilesAllow(t *testing.T) {
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
