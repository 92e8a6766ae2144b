package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A flood is many clients that come at once. Each sends one request over a connection of its own.
type flood struct {
	name    string
	clients int
	request func(i int) (head string, body []byte)
	// silent clients send all but the last byte, and wait.
	silent bool
	// unread clients take nothing of the answer behind its header.
	unread bool
}

const (
	inputBytes    = 750_000
	webhookBytes  = 1_000_000
	documentBytes = 4 << 20
	holdTime      = 8 * time.Second  // how long models, and clients that do not read, take their time
	documentTime  = 4 * time.Second  // how long models take for a document that is steadily written
	floodTime     = 60 * time.Second // a client gives up
)

// floods are what the server has to bear, one after the other and all at once.
var floods = []flood{
	{name: "400 inputs of 750 KB", clients: 400, request: func(int) (string, []byte) { return post("/v1/runs", inputBody()) }},
	{name: "100 inputs of 750 KB, demo model", clients: 100, request: func(int) (string, []byte) { return post("/v1/runs", demoBody()) }},
	{name: "400 messages of 750 KB", clients: 400, request: func(i int) (string, []byte) { return post("/v1/runs", messageBody(i)) }},
	{name: "1000 webhooks of 1 MB", clients: 1000, silent: true, request: webhook},
	{name: "100 clients that do not read", clients: 100, unread: true, request: func(int) (string, []byte) { return post("/v1/runs", []byte(runOf("large"))) }},
	{name: "32 documents of 4 MiB", clients: 32, request: func(int) (string, []byte) { return post("/v1/runs", []byte(runOf("steady"))) }},
}

func runOf(model string) string {
	return `{"workflow":"text","model":"openai:` + model + `","input":"hello"}`
}

var (
	inputBody = sync.OnceValue(func() []byte { return runOfText("openai:slow") })
	demoBody  = sync.OnceValue(func() []byte { return runOfText("demo:demo") })
	text      = sync.OnceValue(func() string { return words(inputBytes) })
)

func runOfText(model string) []byte {
	return []byte(`{"workflow":"text","model":"` + model + `","input":"` + text() + `"}`)
}

// messageBody is a message to an agent, in a session of its own.
func messageBody(i int) []byte {
	return []byte(`{"agent":"assistant","session":"s` + strconv.Itoa(i) + `","input":"` + text() + `"}`)
}

func words(n int) string { return strings.Repeat("some words of text ", n/19+1)[:n] }

func post(path string, body []byte, header ...string) (string, []byte) {
	head := "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n"
	for _, line := range header {
		head += line + "\r\n"
	}
	return head + "\r\n", body
}

var noise = sync.OnceValue(func() []byte { return []byte(`{"message":"` + words(webhookBytes-14) + `"}`) })

// webhook is an event that no platform has signed. Half of them look as if one had.
func webhook(i int) (string, []byte) {
	channel, now := []string{"hook", "slack", "feishu"}[i%3], strconv.FormatInt(time.Now().Unix(), 10)
	path := "/v1/channels/" + channel + "/webhook"
	if i%2 == 0 {
		return post(path, noise())
	}
	wrong := strings.Repeat("0", 64)
	switch channel {
	case "slack":
		return post(path, noise(), "X-Slack-Request-Timestamp: "+now, "X-Slack-Signature: v0="+wrong)
	case "feishu":
		return post(path, noise(), "X-Lark-Request-Timestamp: "+now, "X-Lark-Request-Nonce: 1", "X-Lark-Signature: "+wrong)
	}
	return post(path, noise(), "Webhook-Id: "+strconv.Itoa(i), "Webhook-Timestamp: "+now, "Webhook-Signature: v1,"+base64.StdEncoding.EncodeToString([]byte(wrong[:32])))
}

// outcome is what became of a flood.
type outcome struct {
	Flood    string
	Statuses map[string]int // "503" is with Retry-After, "503 without Retry-After" is not; "none" had no answer
	Ended    map[string]int // of streams, by how their runs have ended
	Took     time.Duration
}

// run sends the flood and returns what became of it.
func (f *flood) run(addr string) outcome {
	o := outcome{Flood: f.name, Statuses: map[string]int{}, Ended: map[string]int{}}
	var mu sync.Mutex
	var clients sync.WaitGroup
	began := time.Now()
	for i := range f.clients {
		clients.Go(func() {
			status, ended := f.one(addr, i)
			mu.Lock()
			defer mu.Unlock()
			o.Statuses[status]++
			if ended != "" {
				o.Ended[ended]++
			}
		})
	}
	clients.Wait()
	o.Took = time.Since(began)
	return o
}

// one is one client.
func (f *flood) one(addr string, i int) (status, ended string) {
	c, err := net.DialTimeout("tcp", addr, floodTime)
	if err != nil {
		return "none: " + reason(err), ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(floodTime))
	head, body := f.request(i)
	if f.silent {
		body = body[:len(body)-1]
		_ = c.SetReadDeadline(time.Now().Add(holdTime))
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		_, err := io.WriteString(c, head)
		if err == nil {
			_, _ = c.Write(body) // one that is refused need not be read
		}
	})
	defer c.Close() // ends the sending
	in := bufio.NewReaderSize(c, 4<<10)
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		if f.silent && errors.Is(err, os.ErrDeadlineExceeded) {
			return "waits for the rest", ""
		}
		return "none: " + reason(err), ""
	}
	defer r.Body.Close()
	status = strconv.Itoa(r.StatusCode)
	if r.StatusCode == http.StatusServiceUnavailable && r.Header.Get("Retry-After") == "" {
		status += " without Retry-After"
	}
	if r.StatusCode != http.StatusOK {
		return status, ""
	}
	if f.unread {
		time.Sleep(holdTime)
		return status, ""
	}
	return status, endOf(r.Body)
}

// endOf reads a stream to its end, and says how its run has ended.
func endOf(r io.Reader) string {
	buf, tail := make([]byte, 32<<10), []byte(nil)
	for {
		n, err := r.Read(buf)
		tail = append(tail, buf[:n]...)
		tail = tail[max(0, len(tail)-600):]
		if err == nil {
			continue
		}
		for _, code := range []string{`"status":"completed"`, `"code":"overloaded"`, `"code":"too_large"`, `"status":"failed"`} {
			if bytes.Contains(tail, []byte(code)) {
				_, word, _ := strings.Cut(code, `:`)
				return strings.Trim(word, `"`)
			}
		}
		return "broken off"
	}
}

func reason(err error) string {
	if e := new(net.OpError); errors.As(err, &e) {
		err = e.Err
	}
	return err.Error()
}

// floodPart is the process that sends floods: those whose numbers it is given, at once.
func floodPart(args []string) error {
	addr := args[0]
	outcomes := make([]outcome, len(args)-1)
	var all sync.WaitGroup
	for i, arg := range args[1:] {
		n, err := strconv.Atoi(arg)
		if err != nil || n < 0 || n >= len(floods) {
			return fmt.Errorf("there is no flood %q", arg)
		}
		all.Go(func() { outcomes[i] = floods[n].run(addr) })
	}
	all.Wait()
	return json.NewEncoder(os.Stdout).Encode(outcomes)
}
