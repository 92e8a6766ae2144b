//go:build nightly && unix

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/fleet"
)

// session is one client: it begins runs one after the other, some of them in a conversation.
type session struct {
	w      *world
	id     string
	random *rand.Rand // of what it does
	moment *rand.Rand // of how it goes on when something has broken, which is not foreseen
	turns  []*turn
}

// turn is a run that a client wants.
type turn struct {
	who           string
	words, pace   int
	agent         string // in the conversation; "" is a workflow
	workflow      string
	key           string
	media         string
	async         bool // it asks for the run first, and for its events afterwards
	get           bool // as an EventSource
	cuts          int  // how often the client breaks its connection off
	cancel, steer bool
	second        bool // somebody else reads along
	passive       bool // who does only reads

	maybe string // an input that was steered, or not
	tried bool   // it was canceled, or not

	input    string   // of the attempt that counts
	tries    []string // the inputs of attempts of which it is not known what became of them
	run      string
	state    string
	began    time.Time
	faults   int // that there were when it began
	canceled bool
	refused  string // what the last request that was not taken got, for the message
}

// media of answers.
const (
	sse   = "text/event-stream"
	jsonl = "application/x-ndjson"
	whole = "application/json"
)

// newSession says what the i-th session does.
func newSession(w *world, i int) *session {
	s := &session{
		w: w, id: fmt.Sprint("s", i),
		random: rand.New(rand.NewPCG(*seed, uint64(i))), moment: rand.New(rand.NewPCG(*seed, uint64(i)+1<<40)),
	}
	for n := range 2 + s.random.IntN(3) {
		t := &turn{who: fmt.Sprintf("%d.%d", i, n), words: 5 + s.random.IntN(60), pace: 30 + s.random.IntN(60)}
		switch p := s.random.IntN(100); {
		case p < 25:
			t.workflow = "text"
		case p < 45:
			t.workflow = "again"
		case p < 55:
			t.workflow, t.cancel, t.words = "text", true, 200
		case p < 85:
			t.agent = "assistant"
		case p < 93:
			t.agent = "careful"
		default:
			t.agent, t.steer = "careful", true
		}
		interactive := t.agent == "careful" || t.cancel // for which the client must see what comes
		if s.random.IntN(2) == 0 {
			t.key = "k" + t.who
		}
		switch p := s.random.IntN(10); {
		case p < 4:
			t.media = sse
		case p < 6 || interactive:
			t.media = jsonl
		case p < 8:
			t.media, t.get = sse, true
		default:
			t.media = whole
		}
		t.async = t.media != whole && !t.get && s.random.IntN(3) == 0
		if t.media != whole {
			t.cuts = s.random.IntN(3)
		}
		t.second = s.random.IntN(4) == 0
		s.turns = append(s.turns, t)
	}
	return s
}

// live does all of it, and checks the tape in the end.
func (s *session) live(ctx context.Context) {
	talked := false
	for _, t := range s.turns {
		ctx, cancel := s.w.patient(ctx, errors.New("no end"))
		t.began, t.faults = time.Now(), s.w.faultsSoFar()
		if err := s.take(ctx, t); err != nil {
			s.fail(t, "%v", err)
		}
		cancel()
		talked = talked || t.agent != ""
		s.w.count("runs")
	}
	if talked {
		s.checkTape(ctx)
	}
	s.w.count("sessions")
}

func (s *session) fail(t *turn, format string, args ...any) {
	s.w.fail("session %s, %s%s, %s (key %q, async %v, get %v, cancel %v, steer %v), run %s: %s", s.id, t.agent, t.workflow, t.media, t.key, t.async, t.get, t.cancel, t.steer,
		t.run, fmt.Sprintf(format, args...))
}

// any is some replica, as a balancer would choose one that knows of nothing.
func (s *session) any() *fleet.Replica {
	return s.w.fleet.Replicas[s.moment.IntN(len(s.w.fleet.Replicas))]
}

// another is a replica that is not this one, where there is one.
func (s *session) another(than *fleet.Replica) *fleet.Replica {
	for {
		if r := s.any(); r != than || len(s.w.fleet.Replicas) == 1 {
			return r
		}
	}
}

// request sends a request to a replica; header lines are "Name: value".
func (s *session) request(ctx context.Context, r *fleet.Replica, method, path, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body == "" {
		req.Body = nil
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, line := range header {
		if name, value, ok := strings.Cut(line, ": "); ok {
			req.Header.Set(name, value)
		}
	}
	return s.w.http.Do(req)
}

// ask sends a request that does no harm when it is sent twice, to any replica that answers it.
func (s *session) ask(ctx context.Context, method, path, body string, header ...string) (status int, text []byte, err error) {
	for {
		resp, err := s.request(ctx, s.any(), method, path, body, header...)
		if err == nil {
			text, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if err == nil && resp.StatusCode != http.StatusServiceUnavailable {
			return resp.StatusCode, text, nil
		}
		if ctx.Err() != nil {
			return 0, nil, fmt.Errorf("%s %s: %w (%v)", method, path, context.Cause(ctx), err)
		}
		pause(ctx, 30*time.Millisecond)
	}
}

// begin is the request that begins the run.
func (t *turn) begin(session string) (method, path, body string, header []string) {
	header = []string{"Accept: " + t.media}
	if t.async {
		header = append(header, "Prefer: respond-async")
	}
	if t.get {
		query := url.Values{"input": {t.input}}
		if t.agent != "" {
			query.Set("agent", t.agent)
			query.Set("session", session)
		} else {
			query.Set("workflow", t.workflow)
		}
		if t.key != "" {
			query.Set("key", t.key)
		}
		return "GET", "/v1/runs?" + query.Encode(), "", header
	}
	if t.key != "" {
		header = append(header, "Idempotency-Key: "+t.key)
	}
	request := map[string]string{"input": t.input}
	if t.agent != "" {
		request["agent"], request["session"] = t.agent, session
	} else {
		request["workflow"] = t.workflow
	}
	text, err := json.Marshal(request)
	if err != nil {
		panic(err)
	}
	return "POST", "/v1/runs", string(text), header
}

// take begins the run, follows it to its end, and holds it to the model.
func (s *session) take(ctx context.Context, t *turn) error {
	for attempt := 0; ; attempt++ {
		if attempt == 0 || t.key == "" {
			// Without a key nobody knows what became of the attempt before; this is another one.
			t.input = inputOf(t.who+strings.Repeat("a", attempt), t.words, t.pace, t.agent == "careful")
		}
		again, err := s.attempt(ctx, t)
		switch {
		case err != nil:
			return err
		case !again:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w; the last attempt, number %d: %s", context.Cause(ctx), attempt, t.refused)
		case t.key == "":
			t.tries = append(t.tries, t.input)
		}
		pause(ctx, time.Duration(20+s.moment.IntN(60))*time.Millisecond)
	}
}

// nobody says that an error is that of a request that nobody has seen.
func nobody(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// attempt begins the run once. It is to be done again where the request was not taken, or is not known to be.
func (s *session) attempt(ctx context.Context, t *turn) (again bool, err error) {
	r := s.any()
	method, path, body, header := t.begin(s.id)
	began := time.Now()
	resp, err := s.request(ctx, r, method, path, body, header...)
	if err != nil {
		if ctx.Err() == nil {
			t.refused = fmt.Sprintf("%s, after %v: %v", r.Name, time.Since(began), err)
		}
		if nobody(err) {
			s.w.count("start retried: connection refused")
		} else {
			s.w.count("start retried: no answer")
		}
		return true, nil
	}
	defer func() { resp.Body.Close() }()
	id := resp.Header.Get("X-Run-Id")
	switch {
	case resp.StatusCode == http.StatusServiceUnavailable, resp.StatusCode == http.StatusFailedDependency && t.media == whole:
		if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
			return false, errors.New("503 without Retry-After")
		}
		text, _ := io.ReadAll(resp.Body) // for the message
		var p struct{ Run string }
		if err := json.Unmarshal(text, &p); err == nil && p.Run != "" && t.media == whole {
			// It was taken, and has failed: the server had no room, or could not write to the tape. The key leads to it for ever.
			t.run = p.Run
			s.w.count("documents with an error")
			return false, s.compare(ctx, t, nil)
		}
		s.w.count("start retried: 503")
		t.refused = fmt.Sprintf("%s, after %v: %d %.300s", r.Name, time.Since(began), resp.StatusCode, text)
		return true, nil
	case resp.StatusCode == http.StatusGone:
		return false, s.gone(t, r, resp)
	case t.media == whole && id != "":
		return s.wait(ctx, t, resp)
	case t.async && resp.StatusCode == http.StatusAccepted && id != "":
		t.run = id
		resp.Body.Close()
		return false, s.follow(ctx, t, s.another(r), nil)
	case resp.StatusCode == http.StatusOK && id != "":
		t.run = id
		return false, s.follow(ctx, t, r, resp)
	}
	text, _ := io.ReadAll(resp.Body) // for the message
	if t.get && resp.StatusCode == http.StatusOK && strings.HasPrefix(string(text), "retry: ") {
		// An EventSource gives up at any other status (CL-05): it comes back by itself.
		s.w.count("start retried: the holder cannot be reached")
		return true, nil
	}
	if t.key == "" && doubted(resp, text) {
		s.w.count("start retried: unknown outcome")
		return true, nil
	}
	return false, fmt.Errorf("begun at %s: %d %.300s", r.Name, resp.StatusCode, text)
}

// doubted says that a replica does not know what became of a request that it has forwarded.
func doubted(resp *http.Response, text []byte) bool {
	return resp.StatusCode == http.StatusBadGateway && strings.Contains(string(text), "may have been executed")
}

// gone takes the answer that a run is gone: the replica that had it died before anything of it was stored, and its key, or the one
// that the document was waited for at, knows that it was begun. It is not begun twice.
func (s *session) gone(t *turn, r *fleet.Replica, resp *http.Response) error {
	var p struct{ Code, Detail, Run string }
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || p.Code != "gone" || p.Run == "" || s.w.faultsSoFar() == 0 ||
		!strings.Contains(p.Detail, "the server stopped during this run") {
		return fmt.Errorf("begun at %s: %d %+v", r.Name, resp.StatusCode, p)
	}
	if t.workflow != "text" { // it has done nothing before it is stored
		return fmt.Errorf("gone at %s, though to be begun again", r.Name)
	}
	s.w.count("ended: gone before the first store")
	t.run, t.state = p.Run, "gone"
	return s.checkModel(t)
}

// wait reads the whole document.
func (s *session) wait(ctx context.Context, t *turn, resp *http.Response) (again bool, err error) {
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.w.count("documents whose connection broke")
		return true, nil
	}
	if resp.StatusCode != http.StatusOK { // a problem, of a run that has ended without a result
		var p struct{ Run string }
		if err := json.Unmarshal(text, &p); err != nil || p.Run == "" {
			return false, fmt.Errorf("%d %.300s", resp.StatusCode, text)
		}
		t.run = p.Run
		s.w.count("documents with an error")
		return false, s.compare(ctx, t, nil)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil || d.Run == "" {
		return false, fmt.Errorf("%.300s", text)
	}
	t.run = d.Run
	v := &view{run: d.Run, state: d.Status, errors: d.Errors}
	if err := v.doc.Set(nil, d.Result); err != nil {
		return false, err
	}
	return false, s.compare(ctx, t, v)
}

// document is a run's.
type document struct {
	Run, Status, Reason string
	Result              json.RawMessage
	Errors              []failure
}

// follow reads the run to its end, at one replica after the other.
func (s *session) follow(ctx context.Context, t *turn, at *fleet.Replica, first *http.Response) error {
	v := new(view)
	var along sync.WaitGroup
	if t.second {
		other := &session{w: s.w, id: s.id, moment: rand.New(rand.NewPCG(*seed, s.moment.Uint64()))}
		from, to := other.another(at), *t
		to.cuts, to.cancel, to.passive = 0, false, true
		along.Go(func() {
			second := new(view)
			if err := other.read(ctx, &to, second, from, nil); err != nil {
				s.fail(&to, "who reads along at %s: %v", from.Name, err)
				return
			}
			other.ended(&to, second)
			s.w.count("second readers")
		})
	}
	err := s.read(ctx, t, v, at, first)
	along.Wait()
	if err != nil {
		return err
	}
	if v.run != t.run && v.run != "" {
		s.fail(t, "the events are those of %s", v.run)
	}
	return s.compare(ctx, t, v)
}

// ended notes what is wrong with a view that has come to its end.
func (s *session) ended(t *turn, v *view) {
	for _, wrong := range v.wrong {
		s.fail(t, "%s", wrong)
	}
	if v.leaps > 0 {
		s.w.count("jumps of ids that readers saw")
	}
}

// read reads events until the end, over as many connections as it takes.
func (s *session) read(ctx context.Context, t *turn, v *view, at *fleet.Replica, resp *http.Response) error {
	cuts, refused := t.cuts, 0
	for connection := 0; v.state == ""; connection++ {
		if ctx.Err() != nil {
			return fmt.Errorf("%w after %d connections and %d events, at %s; refused: %s", context.Cause(ctx), connection, v.events, at.Name, t.refused)
		}
		if resp == nil {
			var err error
			if at = s.any(); connection == 0 {
				s.w.count("readers that started at another replica")
			}
			if resp, err = s.comeBack(ctx, t, v, at); err != nil {
				pause(ctx, 20*time.Millisecond)
				continue
			}
		}
		switch {
		case resp.StatusCode == http.StatusOK:
			after := -1
			if cuts > 0 {
				after = s.moment.IntN(t.words)
			}
			if s.listen(ctx, t, v, at, resp, after) {
				cuts--
				s.w.count("connections that the client closed")
			} else if v.state == "" {
				s.w.count("connections that broke")
				pause(ctx, 10*time.Millisecond)
			}
		case resp.StatusCode == http.StatusServiceUnavailable && (!v.some || t.media != sse):
			// An EventSource that has had something must not be told 503: it would not come back.
			resp.Body.Close()
			pause(ctx, 20*time.Millisecond)
		default:
			text, _ := io.ReadAll(resp.Body) // for the message
			resp.Body.Close()
			// One that was begun at a moment ago, and the one who has it is already gone: somebody will know.
			if refused++; refused < 3 && !s.w.local && resp.StatusCode == http.StatusNotFound {
				s.w.count("404 of a run that there is")
				pause(ctx, 300*time.Millisecond)
				break
			}
			if s.w.local && resp.StatusCode == http.StatusNotFound && s.w.faultsSoFar() > t.faults {
				v.state = "gone"
				return nil
			}
			return fmt.Errorf("%s answers who comes back with %q: %d %.300s", at.Name, v.last(), resp.StatusCode, text)
		}
		resp.Body.Close()
		resp = nil
		v.cut()
	}
	return nil
}

// comeBack asks for the rest of a run.
func (s *session) comeBack(ctx context.Context, t *turn, v *view, at *fleet.Replica) (*http.Response, error) {
	if !v.some {
		return s.request(ctx, at, "GET", "/v1/runs/"+t.run+"/events", "", "Accept: "+t.media)
	}
	if s.moment.IntN(2) == 0 { // as an EventSource, and as one that repeats its POST
		method, path, body, header := t.begin(s.id)
		return s.request(ctx, at, method, path, body, append(header, "Prefer", "Last-Event-ID: "+v.last())...)
	}
	return s.request(ctx, at, "GET", "/v1/runs/"+t.run+"/events", "", "Accept: "+t.media, "Last-Event-ID: "+v.last())
}

// listen reads one answer; it breaks it off behind so many events, unless that is negative.
func (s *session) listen(ctx context.Context, t *turn, v *view, at *fleet.Replica, resp *http.Response, after int) (cut bool) {
	events := newStream(resp.Body, resp.Header.Get("Content-Type"))
	for n := 0; ; n++ {
		if n == after {
			return true
		}
		e, err := events.next()
		if err != nil {
			return false
		}
		v.take(e)
		if t.cancel && !t.canceled && v.n > 3 {
			s.cancel(ctx, t, at)
		}
		if v.ask != "" && !t.passive {
			s.approve(ctx, t, v, at)
		}
		if t.canceled && v.state == "canceled" {
			s.w.took("from a cancel at another replica to the reader's `canceled`", time.Since(t.began))
		}
		if v.state != "" {
			return false
		}
	}
}

// cancel cancels the run at another replica.
func (s *session) cancel(ctx context.Context, t *turn, at *fleet.Replica) {
	r := s.another(at)
	began := time.Now()
	resp, err := s.request(ctx, r, "POST", "/v1/runs/"+t.run+"/cancel", "")
	if err != nil {
		t.tried = true // nobody knows whether it was taken
		return         // again with the next event
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body) // for the message
	switch resp.StatusCode {
	case http.StatusAccepted:
		t.canceled, t.began = true, began
	case http.StatusConflict:
	case http.StatusServiceUnavailable:
		t.tried = true
	default:
		s.fail(t, "canceled at %s: %d %.300s", r.Name, resp.StatusCode, text)
		t.cancel = false
	}
}

// approve lets the call of a tool run, at another replica.
func (s *session) approve(ctx context.Context, t *turn, v *view, at *fleet.Replica) {
	if t.steer {
		t.steer = false
		s.steer(ctx, t, at)
	}
	// The run waits, so that no event says when to try again.
	for ctx.Err() == nil {
		began := time.Now()
		resp, err := s.request(ctx, s.another(at), "POST", "/v1/runs/"+t.run+"/approvals/"+v.ask, `{"decision":"approve"}`)
		if err != nil {
			t.refused = fmt.Sprintf("an approval: %v", err)
			pause(ctx, 30*time.Millisecond)
			continue
		}
		text, _ := io.ReadAll(resp.Body) // for the message
		resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusServiceUnavailable:
			t.refused = fmt.Sprintf("an approval: %.300s", text)
			pause(ctx, 30*time.Millisecond)
			continue
		case http.StatusNoContent:
			s.w.took("an approval at another replica", time.Since(began))
		case http.StatusConflict: // it was answered, and the answer to that was lost
		case http.StatusNotFound, http.StatusGone: // of one that is ending, because its replica has died
			s.w.count("late approvals")
		default:
			s.fail(t, "approved: %d %.300s", resp.StatusCode, text)
		}
		break
	}
	v.ask = ""
}

// steer says something to the run, at another replica; every other time with a key, by which it is known in the end what became of it.
func (s *session) steer(ctx context.Context, t *turn, at *fleet.Replica) {
	steered := inputOf(t.who+"s", t.words, t.pace, false)
	body := fmt.Sprintf(`{"agent":"careful","session":%q,"input":%q,"on_busy":"steer"}`, s.id, steered)
	header := []string{"Prefer: respond-async"}
	keyed := s.moment.IntN(2) == 0
	if keyed {
		header = append(header, "Idempotency-Key: s"+t.who)
	}
	for ctx.Err() == nil {
		r := s.another(at)
		resp, err := s.request(ctx, r, "POST", "/v1/runs", body, header...)
		var text []byte
		if err == nil {
			text, _ = io.ReadAll(resp.Body) // for the message
			resp.Body.Close()
		}
		switch {
		case keyed && (err != nil || resp.StatusCode == http.StatusServiceUnavailable):
			s.w.count("steered again, with a key")
			pause(ctx, 30*time.Millisecond)
			continue
		case err != nil && nobody(err):
		case err != nil, doubted(resp, text):
			s.w.count("steered, outcome unknown")
			t.maybe = steered
			t.tries = append(t.tries, steered)
		case resp.StatusCode == http.StatusServiceUnavailable: // then it was not taken
			s.w.count("steered: 503")
		case resp.StatusCode == http.StatusGone && keyed && s.w.faultsSoFar() > 0: // taken by a replica that has died since
			s.w.count("steered: gone")
			t.tries = append(t.tries, steered)
		case resp.StatusCode != http.StatusAccepted:
			s.fail(t, "steered at %s: %d %.300s", r.Name, resp.StatusCode, text)
		case resp.Header.Get("X-Run-Id") == t.run:
			s.w.count("steered from another replica")
			t.tries = append(t.tries, t.input)
			t.input = steered
		default:
			s.w.count("steered too late")
			t.tries = append(t.tries, steered)
		}
		return
	}
	t.maybe = steered
	t.tries = append(t.tries, steered)
}

// longest is how long a run that a reader has seen the end of may be said to be running by another replica: who asks may be ahead of
// what is stored.
const longest = 20 * time.Second

// compare holds what the client has to the model, and to what any replica says of the run. v is nil where the client has seen a
// problem only.
func (s *session) compare(ctx context.Context, t *turn, v *view) error {
	if v != nil {
		s.ended(t, v)
		if v.gone || v.state == "gone" {
			// One that is alone has lost what it had not written yet; what replicas share was stored before anybody saw it.
			if s.w.count("ended: gone"); !s.w.local {
				s.fail(t, "is said to be gone, after %d events", v.events)
			}
			t.state = "gone"
			return nil
		}
	}
	var d document
	for began := time.Now(); ; pause(ctx, 5*time.Millisecond) {
		status, text, err := s.ask(ctx, "GET", "/v1/runs/"+t.run, "")
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &d); err != nil || status != http.StatusOK {
			return fmt.Errorf("asked for the run: %d %.300s", status, text)
		}
		if d.Status != "running" {
			if late := time.Since(began); late > 20*time.Millisecond {
				s.w.took("from the end that a reader sees until all replicas report it", late)
			}
			break
		}
		if time.Since(began) > longest {
			break
		}
	}
	t.state = d.Status
	s.w.count("ended: " + d.Status)
	if v != nil && (v.state != d.Status || d.Status != "completed" && v.document() != string(d.Result)) {
		s.fail(t, "the client has %s %.200s, and the server %s %.200s", v.state, v.document(), d.Status, d.Result)
	}
	want := docOf(t.input, t.agent != "")
	if other := t.maybe; other != "" && string(d.Result) == docOf(other, true) {
		t.tries, t.input = append(t.tries, t.input), other
		want = docOf(other, true)
	}
	if n := len(t.tries); n > 0 && s.w.faultsSoFar() > 0 && d.Status == "completed" && string(d.Result) == docOf(t.tries[n-1], true) {
		// The steered message is answered by a run of its own, because the replica was lost before the agent had read it.
		s.w.count("steered, and answered by another run")
		t.input, t.tries[n-1] = t.tries[n-1], t.input
		want = docOf(t.input, true)
	}
	switch d.Status {
	case "completed":
		if v != nil && v.document() != want {
			s.fail(t, "a false end: the client has %.300s, and not %.300s", v.document(), want)
		}
		if string(d.Result) != want {
			s.fail(t, "a false end: the server has %.300s, and not %.300s", d.Result, want)
		}
		if t.canceled {
			s.fail(t, "completed, and it was canceled")
		}
	case "canceled":
		if !t.canceled && !t.tried {
			s.fail(t, "canceled, and nobody did that: %s", d.Reason)
		}
	case "interrupted", "failed":
		if s.w.faultsSoFar() == t.faults && t.faults == 0 {
			s.fail(t, "%s, and nothing had broken: %+v", d.Status, d.Errors)
		}
		if len(d.Errors) == 0 {
			s.fail(t, "%s, and nobody says why", d.Status)
		} else if d.Status == "failed" {
			s.w.count("failed: " + d.Errors[len(d.Errors)-1].Code)
		}
		have := strings.TrimRight(string(d.Result), `"}`)
		if !strings.HasPrefix(want, have) && have != "{" && len(t.tries) == 0 {
			s.fail(t, "%s with %.300s, which is no beginning of %.300s", d.Status, d.Result, want)
		}
		if t.workflow != "text" && d.Status == "interrupted" {
			s.fail(t, "interrupted, and not resumed: %+v", d.Errors)
		}
	default:
		s.fail(t, "the end is %q", d.Status)
	}
	return s.checkModel(t)
}

// checkModel looks at how often the model was asked.
func (s *session) checkModel(t *turn) error {
	asked, _ := s.w.model.times(t.input)
	most := 1
	if t.agent == "careful" { // before and after the call
		most = 2
	}
	switch {
	case t.workflow != "text": // it is resumed
		if t.state == "completed" && asked == 0 || asked > most+s.w.faultsSoFar() {
			s.fail(t, "the model was asked %d times", asked)
		}
		if asked > most {
			s.w.count("a reply written again")
		}
	case asked > 1 || t.state == "completed" && asked != 1:
		s.fail(t, "the model was asked %d times", asked)
	}
	return nil
}
