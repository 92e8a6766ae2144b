package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// report is what the client's part prints: one line of JSON.
type report struct {
	Seconds float64
	P50     time.Duration // of a token, from its stamp to the client
	P99     time.Duration
	End50   time.Duration // from the last stamp to the end of the stream
	End99   time.Duration
	First50 time.Duration // from a request to the first event
	First99 time.Duration
	Stamps  int
	Bytes   int64
}

// kind is how a contender is asked and how it answers.
type kind struct {
	path   string
	body   func(n, pace int) string
	before string // what stands before the text of a token
	within string // what a line must have to hold one
	end    string // what a whole stream ends with, about
}

var kinds = map[string]kind{
	"proxy": {
		path: "/v1/chat/completions",
		body: func(n, pace int) string {
			return fmt.Sprintf(`{"model":"bench-1","messages":[{"role":"system","content":"Answer in JSON."},{"role":"user","content":"n=%d pace=%d"}],"stream":true,"stream_options":{"include_usage":true}}`, n, pace)
		},
		before: `"content":"`, end: "data: [DONE]",
	},
	"lingserve": {
		path: "/v1/runs",
		body: func(n, pace int) string {
			return fmt.Sprintf(`{"workflow":"relay","input":{"question":"n=%d pace=%d"}}`, n, pace)
		},
		within: `/body",`, before: `"delta":"`, end: `{"status":"completed"}`,
	},
	"ling":    {path: "/", body: question, within: `/body",`, before: `"delta":"`, end: "event: finished"},
	byHand:    {path: "/", body: question, before: `"delta":"`, end: "data: [DONE]"},
	langChain: {path: "/", body: question, before: `"delta":"`, end: "data: [DONE]"},
	aiText:    {path: "/", body: question, within: `"text-delta"`, before: `"delta":"`, end: "data: [DONE]"},
	aiObject:  {path: "/", body: question, before: `data: "`, end: "data: [DONE]"},
}

func question(n, pace int) string { return fmt.Sprintf(`{"question":"n=%d pace=%d"}`, n, pace) }

type client struct {
	kind
	base string
	http *http.Client

	mu   sync.Mutex
	late []time.Duration
	ends []time.Duration
	read int64
}

// open starts a stream.
func (c *client) open(ctx context.Context, n, pace int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+c.path, strings.NewReader(c.body(n, pace)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	return c.do(req)
}

func (c *client) do(req *http.Request) (*http.Response, error) {
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
		res.Body.Close()
		return nil, fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, res.Status, b)
	}
	return res, nil
}

// stream reads one stream to its end.
func (c *client) stream(n, pace int) error {
	res, err := c.open(context.Background(), n, pace)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if pace <= 0 {
		return c.drain(res.Body)
	}
	return c.follow(res.Body)
}

// drain reads a stream as cheaply as it can and looks only at its end.
func (c *client) drain(r io.Reader) error {
	buf := make([]byte, 32<<10)
	tail := make([]byte, 0, 512)
	var read int64
	for {
		n, err := r.Read(buf)
		read += int64(n)
		if n > 0 {
			if n >= cap(tail) {
				tail = tail[:0]
			} else if over := len(tail) + n - cap(tail); over > 0 {
				tail = append(tail[:0], tail[over:]...)
			}
			tail = append(tail, buf[max(0, n-cap(tail)):n]...)
		}
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	if !bytes.Contains(tail, []byte(c.end)) {
		return fmt.Errorf("a stream ends with %q", tail)
	}
	c.mu.Lock()
	c.read += read
	c.mu.Unlock()
	return nil
}

// follow reads a stream and notes how late each stamp is.
func (c *client) follow(r io.Reader) error {
	in := bufio.NewReaderSize(r, 16<<10)
	var late []time.Duration
	var last []byte
	ended := false
	now := time.Now()
	for {
		if in.Buffered() == 0 {
			if _, err := in.Peek(1); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
			now = time.Now()
		}
		line, err := in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("%w in %.200q", err, line)
		}
		ended = ended || bytes.Contains(line, []byte(c.end))
		if c.within != "" && !bytes.Contains(line, []byte(c.within)) {
			continue
		}
		_, text, ok := bytes.Cut(line, []byte(c.before))
		if !ok {
			continue
		}
		for ; len(text) >= 4 && text[0] != '"'; text = text[4:] {
			d, ok := sinceStamp(text[:4], now)
			if !ok {
				break
			}
			late = append(late, d)
			last = append(last[:0], text[:4]...)
		}
	}
	if !ended {
		return fmt.Errorf("a stream without its end")
	}
	end, _ := sinceStamp(last, time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = append(c.late, late...)
	c.ends = append(c.ends, end)
	return nil
}

// load opens its streams, paced ones spread over a second, and waits for all.
func (c *client) load(l load) error {
	var wg sync.WaitGroup
	errs := make(chan error, l.streams)
	for i := range l.streams {
		wg.Go(func() {
			if l.pace > 0 {
				time.Sleep(time.Duration(i) * time.Second / time.Duration(l.streams))
			}
			if err := c.stream(l.tokens, l.pace); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// many opens as many streams, 50 at a time.
func (c *client) many(n int) error {
	var wg sync.WaitGroup
	errs := make(chan error, 50)
	work := make(chan struct{})
	for range 50 {
		wg.Go(func() {
			for range work {
				if err := c.stream(60, 0); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for range n {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// second opens streams, and when it is told to a second reader on each of them; then it waits to be ended.
func (c *client) second(l load, told *bufio.Reader) error {
	var runs []string
	attach := func() error {
		for _, run := range runs {
			req, err := http.NewRequest(http.MethodGet, c.base+"/v1/runs/"+run+"/events?format=sse", nil)
			if err != nil {
				return err
			}
			res, err := c.do(req)
			if err != nil {
				return err
			}
			go func() { _, _ = io.Copy(io.Discard, res.Body) }()
		}
		return nil
	}
	for range l.streams {
		res, err := c.open(context.Background(), l.tokens, l.pace)
		if err != nil {
			return err
		}
		runs = append(runs, res.Header.Get("X-Run-Id"))
		go func() { _, _ = io.Copy(io.Discard, res.Body) }()
	}
	for _, step := range []func() error{attach, func() error { return nil }} {
		fmt.Println("{}")
		if _, err := told.ReadString('\n'); err != nil {
			return nil
		}
		if err := step(); err != nil {
			return err
		}
	}
	fmt.Println("{}")
	return nil
}

// resume comes back to one run again and again, behind its thousandth event.
func (c *client) resume(times int, pace int) (first []time.Duration, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	res, err := c.open(ctx, 4000, pace)
	if err != nil {
		return nil, err
	}
	run := res.Header.Get("X-Run-Id")
	ran := make(chan struct{})
	events := 0
	thousand := make(chan struct{})
	go func() {
		defer close(ran)
		for s := bufio.NewScanner(res.Body); s.Scan(); {
			if bytes.HasPrefix(s.Bytes(), []byte("data:")) {
				if events++; events == 1100 {
					close(thousand)
				}
			}
		}
	}()
	if pace == 0 {
		<-ran
	}
	<-thousand
	for range times {
		begin := time.Now()
		// Not after the last event that there is, so that what is measured is the answer and not the model's pace.
		req, err := http.NewRequest(http.MethodGet, c.base+"/v1/runs/"+run+"/events?format=sse", nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Last-Event-ID", run+":1000")
		res, err := c.do(req)
		if err != nil {
			return nil, err
		}
		in := bufio.NewReader(res.Body)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(line, "id:") {
				if want := "id: " + run + ":1001\n"; line != want {
					return nil, fmt.Errorf("resumed with %q, want %q", line, want)
				}
				break
			}
		}
		first = append(first, time.Since(begin))
		res.Body.Close()
	}
	return first, nil
}

// clientPart asks the contender at an address for a load and prints a report.
func clientPart(args []string) error {
	f := flag.NewFlagSet("client", flag.ContinueOnError)
	name := f.String("kind", "", "contender")
	addr := f.String("addr", "", "its address")
	what := f.String("do", "load", "load, many, second or resume")
	var l load
	f.IntVar(&l.streams, "streams", 1, "")
	f.IntVar(&l.tokens, "tokens", 1, "")
	f.IntVar(&l.pace, "pace", 0, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	c := &client{kind: kinds[*name], base: "http://" + *addr, http: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 10_000, DisableCompression: true},
	}}
	fmt.Println("client") // where other parts print their address
	told := bufio.NewReader(os.Stdin)
	for {
		// Each line that it is told begins the work anew, on connections that are open already.
		if _, err := told.ReadString('\n'); err != nil {
			return nil
		}
		var r report
		var err error
		c.late, c.ends, c.read = nil, nil, 0
		begin := time.Now()
		switch *what {
		case "load":
			err = c.load(l)
		case "many":
			err = c.many(l.streams)
		case "second":
			err = c.second(l, told)
		case "resume":
			var first []time.Duration
			first, err = c.resume(l.streams, l.pace)
			r.First50, r.First99 = percentiles(first)
		}
		if err != nil {
			return err
		}
		r.Seconds = time.Since(begin).Seconds()
		r.Stamps, r.Bytes = len(c.late), c.read
		r.P50, r.P99 = percentiles(c.late)
		r.End50, r.End99 = percentiles(c.ends)
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			return err
		}
	}
}

func percentiles(v []time.Duration) (p50, p99 time.Duration) {
	if len(v) == 0 {
		return 0, 0
	}
	slices.Sort(v)
	return v[len(v)/2], v[len(v)*99/100]
}
