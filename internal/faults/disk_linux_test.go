//go:build nightly

package faults

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/webhook"
)

// FT-25, DO-04, TA-12: the disk of the data folder becomes full under a server that does not watch it. What the disk would have to keep is
// refused, all else goes on, and everything is as before when there is room, and after a restart. Mounting a small file system takes root.
func TestFullDiskIsNamedAndOutlived(t *testing.T) {
	parallel(t)
	const secret = "whsec_aG9va2hvb2tob29raG9va2hvb2tob29r"
	data := t.TempDir()
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
	o := serving{
		data: data, args: []string{"--limit-disk-free", "0", "--run-ended-memory", "64KiB", "--workspace", t.TempDir()}, // of the sessions after the restart, too
		config: "agents:\n  helper: {model: openai:m}\nchannels:\n  hook: {type: webhook, secret: " + secret + ", agent: helper, ack: result, dm: {policy: open}}\n",
	}
	s := serve(t, o)
	ballast := filepath.Join(data, "ballast")
	fill := func() {
		t.Helper()
		f, err := os.Create(ballast)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for size := 64 << 10; size > 0; {
			if _, err := f.Write(make([]byte, size)); err != nil {
				size /= 2
			}
		}
	}
	ready := func() string { return string(s.do("GET", "/readyz", "").body) }
	makeRoom := func() {
		t.Helper()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		eventually(t, "there is room", func() bool { return !strings.Contains(ready(), "disk") })
	}
	// named checks that the log and /readyz name the disk.
	named := func(message string) {
		t.Helper()
		if text := ready(); !strings.Contains(text, `"overloaded":["disk"]`) {
			t.Errorf("/readyz: %s", text)
		}
		for line := range strings.Lines(s.log.String()) {
			if strings.Contains(line, `"level":"ERROR"`) && strings.Contains(line, message) && strings.Contains(line, "no space left on device") {
				return
			}
		}
		t.Errorf("the log has no error %q with its cause", message)
	}
	const model = "size-30000"
	keyed := func(i int) *answer {
		return s.start(model, strconv.Itoa(i), "Accept: application/json", "Idempotency-Key: "+strconv.Itoa(i))
	}
	say := func(input string) *answer {
		return s.do("POST", "/v1/runs", `{"agent":"helper","session":"s","input":"`+input+`"}`, "Accept: application/json")
	}
	message := func() *answer {
		body := `{"sender":{"id":"ann"},"conversation":{"id":"c","kind":"direct"},"text":"` + strings.Repeat("more and more ", 2000) + `"}`
		secrets, err := webhook.ParseSecrets(secret)
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		secrets.Sign(h, "m1", time.Now(), []byte(body))
		var lines []string
		for name := range h {
			lines = append(lines, name+": "+h.Get(name))
		}
		return s.do("POST", "/v1/channels/hook/webhook", body, lines...)
	}
	if a := say("hello"); a.status != 200 {
		t.Fatalf("%v", a)
	}
	if a := keyed(0); !completed(a, model, "0") {
		t.Fatalf("%v", a)
	}

	fill()
	if a := message(); !a.overloaded() || !strings.Contains(string(a.body), "disk") {
		t.Errorf("a message of a channel: %v", a)
	}
	named("refused an event: disk failed")
	makeRoom()
	if a := message(); a.status != 200 {
		t.Errorf("the message of the channel, with room: %v", a)
	}

	fill()
	for range 2 {
		if a := say(strings.Repeat("more and more ", 2000)); !a.overloaded() || a.code() != "overloaded" || !strings.Contains(a.message(), "disk") {
			t.Errorf("a turn: %v", a)
		}
	}
	named("cannot store a run")
	for i := 1; i <= 20; i++ { // each start is stored, with a key or without
		unkeyed := "without a key " + strconv.Itoa(i)
		for input, a := range map[string]*answer{strconv.Itoa(i): keyed(i), unkeyed: s.start(model, unkeyed, "Accept: application/json")} {
			if !completed(a, model, input) && !(a.header.Get("Retry-After") != "" && (a.status == 503 || a.status == 507)) {
				t.Errorf("run %s: %v", input, a)
			}
		}
	}
	makeRoom()
	if a := say("again"); a.status != 200 {
		t.Errorf("a turn, with room: %v", a)
	}
	eventually(t, "a run with a key is kept", func() bool { return completed(keyed(100), model, "100") })
	s.stop()

	s = serve(t, o)
	for _, i := range []int{0, 100} {
		if a := keyed(i); !completed(a, model, strconv.Itoa(i)) || s.model.Requests() != 0 {
			t.Errorf("after the restart, run %d: %v; %d requests to models", i, a, s.model.Requests())
		}
	}
	if a := s.do("GET", "/v1/sessions/s/tape", ""); a.status != 200 || !strings.Contains(string(a.body), "hello") || !strings.Contains(string(a.body), "again") {
		t.Errorf("the session after the restart: %v", a)
	}
	s.stop()
}
