package faults

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// DO-04: nobody watches the room on the disk, and the disk becomes full. What the disk would have to keep is refused as overloaded, by a
// sentence that names the disk, with the time to come back; the log has the cause as an error; /readyz says it; and all of that ends when
// there is room.
func TestDO_04_AFullDiskIsNamed(t *testing.T) {
	data := t.TempDir()
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(data, syscall.MNT_DETACH) })
	s := serve(t, serving{data: data, args: []string{"--limit-disk-free", "0"}, config: "agents:\n  helper: {model: openai:m}\n"})
	ask := func(input, accept string) *answer {
		t.Helper()
		a, err := s.do("POST", "/v1/runs", `{"agent":"helper","session":"s","input":"`+input+`"}`, "Accept: "+accept)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := ask("hello", "application/json"); a.status != 200 {
		t.Fatalf("%v", a)
	}
	f, err := os.Create(filepath.Join(data, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; err == nil || size > 1; {
		if _, err = f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	f.Close()
	for _, accept := range []string{"text/event-stream", "application/json", "application/json"} {
		a := ask(strings.Repeat("more and more ", 2000), accept)
		text := string(a.body)
		if a.status != 200 && (a.status != 503 || a.header.Get("Retry-After") == "") ||
			a.status == 200 && accept == "application/json" ||
			!strings.Contains(text, `"overloaded"`) || !strings.Contains(text, "disk") {
			t.Errorf("%s: %d, %.1000s", accept, a.status, text)
		}
	}
	ready := func() string {
		a, err := s.do("GET", "/readyz", "")
		if err != nil || a.status != 200 {
			t.Fatalf("%v, %v", a, err)
		}
		return string(a.body)
	}
	if text := ready(); !strings.Contains(text, `"overloaded":["disk"]`) {
		t.Errorf("/readyz: %s", text)
	}
	found := false
	for line := range strings.Lines(s.log.String()) {
		found = found || strings.Contains(line, `"level":"ERROR"`) && strings.Contains(line, "no space left on device")
	}
	if !found {
		t.Error("the log does not have the cause as an error")
	}
	s.served("m", "what keeps nothing begins")
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	eventuallySlowly(t, "there is room", func() bool { return !strings.Contains(ready(), "disk") })
	if a := ask("again", "application/json"); a.status != 200 {
		t.Errorf("with room again: %v", a)
	}
	s.stop()
}
