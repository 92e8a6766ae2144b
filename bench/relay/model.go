package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// The model writes a document of sections in tokens of at most four characters, as OpenAI's chat completions do. How many
// tokens and at what pace is in the question: "n=500 pace=50".
//
// Each token of a section's text is a stamp: the time when it was written, in microseconds modulo 2^24, in four characters
// of base64. Only stamps are four characters of that alphabet.

const stampRange = 1 << 24

func appendStamp(dst []byte, t time.Time) []byte {
	us := uint32(t.UnixMicro()) % stampRange
	return base64.RawURLEncoding.AppendEncode(dst, []byte{byte(us >> 16), byte(us >> 8), byte(us)})
}

// sinceStamp says how long ago a stamp was made.
func sinceStamp(stamp []byte, now time.Time) (time.Duration, bool) {
	var b [3]byte
	if n, err := base64.RawURLEncoding.Decode(b[:], stamp); err != nil || n != 3 {
		return 0, false
	}
	us := uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
	d := (uint32(now.UnixMicro()) - us) % stampRange
	return time.Duration(d) * time.Microsecond, true
}

const isStamp = "" // stands for a stamp in the list of a document's tokens

// document returns n tokens of a JSON document; the last ones close it.
func document(n int) (tokens []string, closing int) {
	open := []string{`{"ti`, `tle"`, `:"Wh`, `y it`, ` is"`, `,"se`, `ctio`, `ns":`, `[`}
	section := []string{`{"he`, `ad":`, `"On `, `it",`, `"bod`, `y":"`}
	const stamps = 60
	tokens = append(tokens, open...)
	for len(tokens) < n-3 {
		if len(tokens) > len(open) {
			tokens = append(tokens, `"},`)
		}
		tokens = append(tokens, section...)
		for i := 0; i < stamps && (i == 0 || len(tokens) < n-2); i++ {
			tokens = append(tokens, isStamp)
		}
	}
	return append(tokens, `"}`, `]}`), 2
}

const (
	chunkHead = `data: {"id":"chatcmpl-C0ffee0123456789abcdefghijklm","object":"chat.completion.chunk","created":1770000000,"model":"bench-1","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{`
	chunkTail = `},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n"
	lastChunk = `data: {"id":"chatcmpl-C0ffee0123456789abcdefghijklm","object":"chat.completion.chunk","created":1770000000,"model":"bench-1","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}` + "\n\n" +
		`data: {"id":"chatcmpl-C0ffee0123456789abcdefghijklm","object":"chat.completion.chunk","created":1770000000,"model":"bench-1","system_fingerprint":"fp_0123456789","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":500,"total_tokens":520}}` + "\n\n" +
		"data: [DONE]\n\n"
)

func appendChunk(dst []byte, token string, now time.Time) []byte {
	dst = append(dst, chunkHead...)
	dst = append(dst, `"content":"`...)
	if token == isStamp {
		dst = appendStamp(dst, now)
	}
	for i := range len(token) {
		if token[i] == '"' {
			dst = append(dst, '\\')
		}
		dst = append(dst, token[i])
	}
	dst = append(dst, '"')
	return append(dst, chunkTail...)
}

var asked = regexp.MustCompile(`n=(\d+) pace=(-?\d+)`)

// whole holds answers without pace, ready made, so that the model takes as little of the machine as it can.
var whole sync.Map

func answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m := asked.FindSubmatch(body)
	if m == nil {
		http.Error(w, "no n and pace in the question", http.StatusBadRequest)
		return
	}
	n, _ := strconv.Atoi(string(m[1]))
	pace, _ := strconv.Atoi(string(m[2]))
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	switch {
	case pace == inPieces:
		quick(w, n)
	case pace == tokenByToken:
		each(w, n)
	default:
		slow(w, r, n, pace)
	}
}

// Paces that are none.
const (
	inPieces     = 0  // as fast as it can, 8 KiB at a time: what a server does that has fallen behind
	tokenByToken = -1 // as fast as it can, each token written and flushed by itself: what a model's server does
)

// each writes the tokens one by one.
func each(w http.ResponseWriter, n int) {
	rc := http.NewResponseController(w)
	tokens, _ := document(n)
	var buf []byte
	stamp := string(appendStamp(nil, time.Now()))
	for _, token := range tokens {
		if token == isStamp {
			token = stamp // of no use here, and reading the clock is not what is measured
		}
		buf = appendChunk(buf[:0], token, time.Time{})
		if _, err := w.Write(buf); err != nil {
			return
		}
		if err := rc.Flush(); err != nil {
			return
		}
	}
	_, _ = w.Write([]byte(lastChunk))
}

func quick(w http.ResponseWriter, n int) {
	v, ok := whole.Load(n)
	if !ok {
		var b bytes.Buffer
		tokens, _ := document(n)
		for _, token := range tokens {
			b.Write(appendChunk(nil, token, time.Now()))
		}
		b.WriteString(lastChunk)
		v, _ = whole.LoadOrStore(n, b.Bytes())
	}
	const piece = 8 << 10 // what a busy server writes at a time
	for b := v.([]byte); len(b) > 0; {
		k := min(piece, len(b))
		if _, err := w.Write(b[:k]); err != nil {
			return
		}
		b = b[k:]
	}
}

func slow(w http.ResponseWriter, r *http.Request, n, pace int) {
	rc := http.NewResponseController(w)
	step := time.Second / time.Duration(pace)
	tokens, closing := document(n)
	next := time.Now().Add(rand.N(step)) // so that streams do not beat together
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	var buf []byte
	for i, token := range tokens {
		if i < len(tokens)-closing {
			select {
			case <-timer.C:
			case <-r.Context().Done():
				return
			}
			next = next.Add(step)
			timer.Reset(time.Until(next))
			buf = buf[:0]
		}
		buf = appendChunk(buf, token, time.Now())
		// The last stamp, the closing tokens and the end go out together: from that stamp on the relay has all.
		if i >= len(tokens)-closing-1 && i < len(tokens)-1 {
			continue
		}
		if i == len(tokens)-1 {
			buf = append(buf, lastChunk...)
		}
		if _, err := w.Write(buf); err != nil {
			return
		}
		if err := rc.Flush(); err != nil {
			return
		}
	}
}

// modelPart serves the model and prints its address.
func modelPart([]string) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	s := &http.Server{Handler: http.HandlerFunc(answer), ReadHeaderTimeout: 10 * time.Second}
	return s.Serve(ln)
}
