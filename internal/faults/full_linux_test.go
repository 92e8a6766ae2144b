//go:build nightly

package faults

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/webhook"
)

const hookSecret = "whsec_aG9va2hvb2tob29raG9va2hvb2tob29r"

// say sends a message to the channel "hook".
func (s *server) say(t *testing.T, id, text string) *answer {
	t.Helper()
	secrets, err := webhook.ParseSecrets(hookSecret)
	if err != nil {
		t.Fatal(err)
	}
	body := `{"sender":{"id":"ann"},"conversation":{"id":"c","kind":"direct"},"text":"` + text + `"}`
	h := http.Header{}
	secrets.Sign(h, id, time.Now(), []byte(body))
	var lines []string
	for name := range h {
		lines = append(lines, name+": "+h.Get(name))
	}
	a, err := s.do("POST", "/v1/channels/hook/webhook", body, lines...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// DO-04: nobody watches the room on the disk, and the disk becomes full. What the disk would have to keep is refused as overloaded, by a
// sentence that names the disk, with the time to come back; the log has the cause as an error; /readyz says it; and all of that ends when
// there is room.
func TestDO_04_AFullDiskIsNamed(t *testing.T) {
	data := t.TempDir()
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(data, syscall.MNT_DETACH) })
	s := serve(t, serving{data: data, args: []string{"--limit-disk-free", "0"}, config: "agents:\n  helper: {model: openai:m}\n" +
		"channels:\n  hook: {type: webhook, secret: " + hookSecret + ", agent: helper, ack: result, dm: {policy: open}}\n"})
	ask := func(input, accept string) *answer {
		t.Helper()
		a, err := s.do("POST", "/v1/runs", `{"agent":"helper","session":"s","input":"`+input+`"}`, "Accept: "+accept)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	ready := func() string {
		t.Helper()
		a, err := s.do("GET", "/readyz", "")
		if err != nil || a.status != 200 {
			t.Fatalf("%v, %v", a, err)
		}
		return string(a.body)
	}
	full := func(message string) {
		t.Helper()
		for line := range strings.Lines(s.log.String()) {
			if strings.Contains(line, `"level":"ERROR"`) && strings.Contains(line, message) && strings.Contains(line, "no space left on device") {
				return
			}
		}
		t.Errorf("the log does not have the cause as an error of %q", message)
	}
	if a := ask("hello", "application/json"); a.status != 200 {
		t.Fatalf("%v", a)
	}
	ballast := filepath.Join(data, "ballast")
	fill := func() {
		t.Helper()
		f, err := os.Create(ballast)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for size := 64 << 10; err == nil || size > 1; {
			if _, err = f.Write(make([]byte, size)); err != nil {
				size /= 2
			}
		}
	}
	makeRoom := func() {
		t.Helper()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		eventuallySlowly(t, "there is room", func() bool { return !strings.Contains(ready(), "disk") })
	}
	fill()
	said := func() *answer { return s.say(t, "m1", strings.Repeat("more and more ", 2000)) }
	if a := said(); a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(string(a.body), "disk") {
		t.Errorf("a message of a channel: %v", a)
	}
	if text := ready(); !strings.Contains(text, `"overloaded":["disk"]`) {
		t.Errorf("/readyz after a message of a channel: %s", text)
	}
	full("refused an event: disk failed")
	makeRoom()
	if a := said(); a.status != 200 {
		t.Errorf("the message of the channel, with room again: %v", a)
	}
	fill()
	for _, accept := range []string{"text/event-stream", "application/json", "application/json"} {
		a := ask(strings.Repeat("more and more ", 2000), accept)
		text := string(a.body)
		if a.status != 200 && (a.status != 503 || a.header.Get("Retry-After") == "") ||
			a.status == 200 && accept == "application/json" ||
			!strings.Contains(text, `"overloaded"`) || !strings.Contains(text, "disk") {
			t.Errorf("%s: %d, %.1000s", accept, a.status, text)
		}
	}
	if text := ready(); !strings.Contains(text, `"overloaded":["disk"]`) {
		t.Errorf("/readyz: %s", text)
	}
	full("turn failed")
	s.served("m", "what keeps nothing begins")
	makeRoom()
	if a := ask("again", "application/json"); a.status != 200 {
		t.Errorf("with room again: %v", a)
	}
	s.stop()
}
