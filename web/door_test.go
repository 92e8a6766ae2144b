package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/web/wire"
)

// keyring is what the principals of a test show.
type keyring struct {
	door    *access.Door
	entries []string
	bearer  map[string]string // headers, by name
}

// newTickets returns tickets that a table in memory keeps.
func newTickets(t testing.TB) *access.Tickets {
	t.Helper()
	d, err := db.Open(context.Background(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return access.NewTickets(access.TicketsOptions{Store: d.Values(db.Tickets, db.ValueOptions{})})
}

// newKeyring makes a key for each entry as NAME:ROLE, with scopes behind a blank.
func newKeyring(t testing.TB, entries ...string) *keyring {
	t.Helper()
	k := &keyring{bearer: map[string]string{}}
	for _, entry := range entries {
		who, scopes, _ := strings.Cut(entry, " ")
		name, role, _ := strings.Cut(who, ":")
		p := access.Principal{Name: name}
		var err error
		if p.Role, err = access.ParseRole(role); err != nil {
			t.Fatal(err)
		}
		if scopes != "" {
			if p.Scopes, err = access.ParseScopes(strings.Split(scopes, "+")); err != nil {
				t.Fatal(err)
			}
		}
		key, text := access.NewKey(p, time.Time{})
		k.entries = append(k.entries, key.Entry())
		k.bearer[name] = "Authorization: Bearer " + text
	}
	keys, err := access.NewKeys(access.KeysOptions{Entries: k.entries})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keys.Close)
	k.door = &access.Door{Keys: keys, Tickets: newTickets(t)}
	return k
}

// reply is all of an answer that could tell somebody something.
type reply struct {
	Status int
	Header http.Header
	Body   string
}

// whole sends a request and reads the whole answer, with what is different each time taken out.
func (b *bench) whole(method, path, body string, header ...string) reply {
	b.t.Helper()
	resp := b.do(method, path, body, header...)
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	h := resp.Header.Clone()
	for _, name := range []string{"Date", "X-Request-Id"} {
		h.Del(name)
	}
	return reply{resp.StatusCode, h, string(text)}
}

// keyedBench is a server with agents that asks for keys.
func keyedBench(t testing.TB, k *keyring, edit func(*Options)) *agentBench {
	t.Helper()
	a := newAgentBench(t, func(o *Options, _ *agent.Options) {
		o.Access.Door, o.InlineWorkflows = k.door, true
		if edit != nil {
			edit(o)
		}
	})
	a.serve()
	return a
}

// paths are those of all routes, each with what a request there needs; a route that is new has no row and fails.
func routesOf(t *testing.T, s *Server) (list []string) {
	t.Helper()
	if err := chi.Walk(s.router, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		list = append(list, method+" "+route)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

const (
	chatMessage   = `{"id":"%s","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"q"}]}]}`
	agchatMessage = `{"threadId":"%s","runId":"r","messages":[{"id":"m","role":"user","content":"q"}]}`
)

// SE-09, RU-41
func TestWhatBelongsToOneIsToOthersAsIfItWereNotThere(t *testing.T) {
	// Ann is one who may much, but not what concerns others: with scopes that do not have admin.
	k := newKeyring(t, "ann:admin workflows+agents+sessions", "bob:user", "root:admin")
	a := keyedBench(t, k, nil)
	ann, bob, root := k.bearer["ann"], k.bearer["bob"], k.bearer["root"]

	// Ann has a run that goes on, one that waits for her, a session, a key; and some that have the same names as Bob's.
	going := readDocument(t, a.do("POST", "/v1/runs", `{"workflow":"steps"}`, ann, "Prefer: respond-async", "Idempotency-Key: shared")).Run
	st := <-a.steps.came
	defer st.finish()
	said := readDocument(t, a.do("POST", "/v1/runs", `{"agent":"assistant","session":"secret-plan","input":"the password is swordfish"}`, ann))
	if said.Status != run.StatusCompleted || said.Session != "secret-plan" {
		t.Fatalf("%+v", said)
	}
	ended := said.Run
	unknown := run.NewID()

	// Each row is asked as Bob for what is Ann's, and for what there never was. The answers must not differ but by the id.
	type row struct{ mine, none, body, noneBody string }
	same := func(path string) row { return row{mine: path, none: path} }
	of := func(format, body string) row {
		return row{fmt.Sprintf(format, ended), fmt.Sprintf(format, unknown), body, body}
	}
	session := func(format, body string) row {
		return row{fmt.Sprintf(format, "secret-plan"), fmt.Sprintf(format, "nobody-plan"), body, body}
	}
	rows := map[string]row{
		"GET /v1/runs/{run}":                          of("/v1/runs/%s", ""),
		"HEAD /v1/runs/{run}":                         of("/v1/runs/%s", ""),
		"GET /v1/runs/{run}/events":                   of("/v1/runs/%s/events", ""),
		"HEAD /v1/runs/{run}/events":                  of("/v1/runs/%s/events", ""),
		"POST /v1/runs/{run}/cancel":                  {"/v1/runs/" + going + "/cancel", "/v1/runs/" + unknown + "/cancel", "", ""},
		"POST /v1/runs/{run}/approvals/{approval}":    of("/v1/runs/%s/approvals/"+run.NewID(), `{"decision":"approve"}`),
		"GET /v1/sessions/{id}":                       session("/v1/sessions/%s", ""),
		"HEAD /v1/sessions/{id}":                      session("/v1/sessions/%s", ""),
		"DELETE /v1/sessions/{id}":                    session("/v1/sessions/%s", ""),
		"GET /v1/sessions/{id}/tape":                  session("/v1/sessions/%s/tape", ""),
		"GET /v1/sessions/{id}/approvals":             session("/v1/sessions/%s/approvals", ""),
		"POST /v1/sessions/{id}/approvals/{approval}": session("/v1/sessions/%s/approvals/abcdefghijklmnopqrstuvwxyz", `{"decision":"approve"}`),
		"POST /v1/sessions/{id}/cancel":               session("/v1/sessions/%s/cancel", ""),
		"POST /v1/sessions/{id}/handoff":              session("/v1/sessions/%s/handoff", `{"name":"n"}`),
		"POST /v1/sessions/{id}/fork":                 session("/v1/sessions/%s/fork", ""),
		"GET /v1/agui/{agent}/{thread}":               session("/v1/agui/assistant/%s", ""),
		"GET /v1/ui/{agent}/{chat}":                   session("/v1/ui/assistant/%s", ""),
		"HEAD /v1/ui/{agent}/{chat}":                  session("/v1/ui/assistant/%s", ""),
		"GET /v1/ui/{agent}/{chat}/stream":            session("/v1/ui/assistant/%s/stream", ""),
		"POST /v1/runs":                               {"/v1/runs", "/v1/runs", "", ""}, // below, by a Last-Event-ID
		"GET /v1/runs":                                {"/v1/runs?last_event_id=" + ended + ":1", "/v1/runs?last_event_id=" + unknown + ":1", "", ""},
		"POST /v1/ui/{agent}":                         {"/v1/ui/assistant?v=6", "/v1/ui/assistant?v=6", answerOf(ended), answerOf(unknown)},
		"POST /v1/agui/{agent}":                       {"/v1/agui/assistant", "/v1/agui/assistant", resumeOf(ended), resumeOf(unknown)},
		"GET /v1/history":                             same("/v1/history?status=completed"),
		"HEAD /v1/history":                            same("/v1/history?session=secret-plan"),
		"POST /v1/history/cancel":                     {"/v1/history/cancel", "/v1/history/cancel", `{"owner":"ann"}`, `{"owner":"nobody"}`},
		"GET /v1/sessions":                            same("/v1/sessions"),
		"HEAD /v1/sessions":                           same("/v1/sessions"),
		"GET /v1/files/{id}":                          {}, "HEAD /v1/files/{id}": {}, "GET /v1/files/{id}/content": {}, "HEAD /v1/files/{id}/content": {},
		"DELETE /v1/files/{id}": {}, "POST /v1/files": {}, // see TestAFileIsUploadedReadAndErasedByItsOwnerAlone
		"POST /v1/tickets":                    {}, // tells nothing of anybody: see TestATicketLetsOneRequestIn
		"POST /v1/chat/completions":           {}, // has no ids; its session is of who asks: see below
		"POST /v1/ui/{agent}/object":          {}, // starts a run, and names none
		"POST /v1/channels/{channel}/webhook": {}, // looks at who asks by itself
		"GET /":                               {}, "HEAD /": {}, "GET /assets/{name}": {}, "HEAD /assets/{name}": {}, "GET /healthz": {}, "HEAD /healthz": {},
		"GET /readyz": {}, "HEAD /readyz": {}, "GET /openapi.yaml": {}, "HEAD /openapi.yaml": {}, // for everybody
		"GET /v1/agents": {}, "HEAD /v1/agents": {}, "GET /v1/models": {}, "HEAD /v1/models": {}, "GET /v1/models/*": {}, "HEAD /v1/models/*": {},
		"GET /v1/workflows": {}, "HEAD /v1/workflows": {}, "GET /v1/workflows/{name}": {}, "HEAD /v1/workflows/{name}": {}, // the same for all
	}
	if diff := cmp.Diff(routesOf(t, a.s), slices.Sorted(maps.Keys(rows))); diff != "" {
		t.Fatalf("routes without a row, or the other way:\n%s", diff)
	}
	for name, r := range rows {
		if r.mine == "" {
			continue
		}
		method, _, _ := strings.Cut(name, " ")
		header := []string{bob}
		noneHeader := []string{bob}
		if name == "POST /v1/runs" {
			header, noneHeader = []string{bob, "Last-Event-ID: " + ended + ":1"}, []string{bob, "Last-Event-ID: " + unknown + ":1"}
		}
		mine, none := a.whole(method, r.mine, r.body, header...), a.whole(method, r.none, r.noneBody, noneHeader...)
		// What was asked for may be said back.
		for _, x := range []*reply{&mine, &none} {
			for _, id := range []string{ended, going, unknown, "secret-plan", "nobody-plan"} {
				x.Body = strings.ReplaceAll(x.Body, id, "ID")
			}
			for name, values := range x.Header {
				for i := range values {
					values[i] = strings.NewReplacer(ended, "ID", going, "ID", unknown, "ID").Replace(values[i])
				}
				x.Header[name] = values
			}
			if strings.HasPrefix(name, "GET /v1/agui/") { // a thread that there is not is one without messages, of a run of its own
				x.Body = runIDs.ReplaceAllString(x.Body, "RUN")
			}
		}
		if diff := cmp.Diff(none, mine); diff != "" {
			t.Errorf("%s: what is not there (-) and what is Ann's (+):\n%s", name, diff)
		}
		if strings.Contains(mine.Body, "swordfish") {
			t.Errorf("%s: %s", name, mine.Body)
		}
	}

	// A key of Ann's is not one of Bob's: he starts a run of his own with it, and both are led to their own.
	his := readDocument(t, a.do("POST", "/v1/runs", `{"workflow":"steps","input":{}}`, bob, "Prefer: respond-async", "Idempotency-Key: shared")).Run
	if his == going {
		t.Error("a key of one has led to the run of another")
	}
	(<-a.steps.came).finish()
	if again := readDocument(t, a.do("POST", "/v1/runs", `{"workflow":"steps"}`, ann, "Prefer: respond-async", "Idempotency-Key: shared")).Run; again != going {
		t.Errorf("her key leads to %s, not to %s", again, going)
	}

	// The same name is another session for each, through each door.
	for _, session := range []string{"secret-plan", "web:ann#secret-plan", "web%3Aann%23secret-plan"} {
		body, _ := json.Marshal(map[string]string{"agent": "assistant", "session": session, "input": "what is the password?"})
		if d := readDocument(t, a.do("POST", "/v1/runs", string(body), bob)); d.Session != session {
			t.Errorf("%q is told as %q", session, d.Session)
		}
	}
	_ = a.whole("POST", "/v1/chat/completions", `{"model":"assistant","user":"secret-plan","messages":[{"role":"user","content":"and now?"}]}`, bob)
	_ = a.whole("POST", "/v1/ui/assistant", fmt.Sprintf(chatMessage, "secret-plan"), bob)
	_ = a.whole("POST", "/v1/agui/assistant", fmt.Sprintf(agchatMessage, "secret-plan"), bob)
	for _, req := range a.talk.requests() {
		text := fmt.Sprint(req.Messages)
		if strings.Contains(text, "swordfish") && !strings.Contains(text, "the password is swordfish") || strings.Contains(text, "swordfish") && (strings.Contains(text, "what is the password?") || strings.Contains(text, "and now?")) {
			t.Errorf("a model was told what somebody else has said: %s", text)
		}
	}
	if list := a.whole("GET", "/v1/sessions", "", bob).Body; strings.Contains(list, "swordfish") || strings.Count(list, `"id":`) != 3 {
		t.Errorf("Bob's list: %s", list)
	}
	if list := a.whole("GET", "/v1/sessions", "", ann).Body; strings.Count(list, `"id":`) != 1 || !strings.Contains(list, `"id":"secret-plan"`) || strings.Contains(list, "what is the password") {
		t.Errorf("Ann's list: %s", list)
	}

	// A fork is made below the name of who makes it, and a name that another one has is free.
	if got := a.whole("POST", "/v1/sessions/web:ann%23secret-plan/fork", `{"session":"mine"}`, ann); got.Status != 404 {
		t.Errorf("a session by its tape's name: %+v", got)
	}
	if got := a.whole("POST", "/v1/sessions/secret-plan/fork", `{"session":"web%3Aann%23secret-plan"}`, ann); got.Status != 201 || !strings.Contains(got.Body, `"id":"web%3Aann%23secret-plan"`) {
		t.Errorf("a fork: %+v", got)
	}

	// Who administers may look after the runs of others, and of who has none he learns no more.
	if got := a.whole("GET", "/v1/runs/"+ended, "", root); got.Status != 200 {
		t.Errorf("an admin: %+v", got)
	}
	if got := a.whole("GET", "/v1/runs/"+ended, ""); got.Status != 401 || got.Body != a.whole("GET", "/v1/runs/"+unknown, "").Body {
		t.Errorf("nobody: %+v", got)
	}
	// Forgotten ones, too, are as if they had never been.
	a.expireRun(unknown, "ann")
	if hers, his := a.whole("GET", "/v1/runs/"+unknown, "", ann), a.whole("GET", "/v1/runs/"+unknown, "", bob); hers.Status != 410 || his.Status != 404 {
		t.Errorf("%+v, %+v", hers, his)
	}
}

// SE-10
func TestEveryRouteNeedsAKeyExceptThoseForEverybody(t *testing.T) {
	a := keyedBench(t, newKeyring(t, "ann:user"), nil)
	for _, route := range routesOf(t, a.s) {
		method, path, _ := strings.Cut(route, " ")
		want := 401
		switch path {
		case "/", "/assets/{name}", "/healthz", "/readyz", "/openapi.yaml":
			want = 200
		case "/v1/channels/{channel}/webhook": // a channel verifies the signature of its platform
			want = 404
		}
		path = regexp.MustCompile(`\{[^}]*\}|\*`).ReplaceAllString(path, "x")
		if got := a.whole(method, path, "").Status; got != want && !strings.HasPrefix(path, "/assets/") {
			t.Errorf("%s without a key: %d, want %d", route, got, want)
		}
	}
}

func TestScopesSayWhatIsStartedAndListed(t *testing.T) {
	k := newKeyring(t, "all:user", "one:user workflows:chat", "talks:user agents", "none:user sessions")
	a := keyedBench(t, k, nil)
	for name, want := range map[string]map[string]int{
		`{"workflow":"chat","input":"q"}`:                               {"all": 200, "one": 200, "talks": 403, "none": 403},
		`{"workflow":"steps"}`:                                          {"one": 403, "talks": 403, "none": 403},
		`{"workflow":"there is not"}`:                                   {"all": 404, "one": 403, "talks": 403, "none": 403},
		`{"agent":"assistant","input":"q"}`:                             {"all": 200, "one": 403, "talks": 200, "none": 403},
		`{"agent":"assistant","session":"s","input":"q"}`:               {"all": 200, "one": 403, "talks": 403, "none": 403},
		`{"workflow":{"bots":[{"name":"a","prompt":"b"}]},"input":"q"}`: {"one": 403, "talks": 403, "none": 403},
	} {
		for who, status := range want {
			if got := a.whole("POST", "/v1/runs", name, k.bearer[who]); got.Status != status {
				t.Errorf("%s: %s gets %d %s", name, who, got.Status, got.Body)
			}
		}
	}
	for who, want := range map[string][]string{"all": {"assistant", "chat", "steps"}, "one": {"chat"}, "talks": {"assistant"}, "none": nil} {
		text := a.whole("GET", "/v1/workflows", "", k.bearer[who]).Body + a.whole("GET", "/v1/agents", "", k.bearer[who]).Body
		missing := a.whole("POST", "/v1/agui/nobody", fmt.Sprintf(agchatMessage, "t"), k.bearer[who]).Body
		for _, name := range []string{"assistant", "chat", "steps"} {
			if listed := strings.Contains(text, `"name":"`+name+`"`); listed != slices.Contains(want, name) {
				t.Errorf("%s is listed for %s: %v", name, who, listed)
			}
			if named := strings.Contains(missing, name); named != slices.Contains(want, name) {
				t.Errorf("%s is named to %s: %v; %s", name, who, named, missing)
			}
		}
		models := a.whole("GET", "/v1/models", "", k.bearer[who]).Body
		if raw := strings.Contains(models, "test:story"); raw != (who == "all") {
			t.Errorf("%s sees models: %s", who, models)
		}
	}
	for _, who := range []string{"one", "talks"} {
		if got := a.whole("GET", "/v1/sessions", "", k.bearer[who]); got.Status != 403 {
			t.Errorf("%s: %+v", who, got)
		}
	}
	if got := a.whole("POST", "/v1/chat/completions", `{"model":"test:story","messages":[{"role":"user","content":"q"}]}`, k.bearer["one"]); got.Status != 404 {
		t.Errorf("a model alone: %+v", got)
	}
}

// SE-10
func TestATicketLetsOneRequestIn(t *testing.T) {
	k := newKeyring(t, "ann:user")
	b := newBench(t, func(o *Options) { o.Access.Door, o.AccessLog = k.door, AccessLogAll }).serve()
	ticket := func(path string) string {
		resp := b.do("POST", "/v1/tickets", `{"path":"`+path+`"}`, k.bearer["ann"])
		if resp.StatusCode != 201 || resp.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%d %v", resp.StatusCode, resp.Header)
		}
		return readTicket(t, resp)
	}
	first := ticket("/v1/runs")
	use := "/v1/runs?workflow=chat&input=q&format=sse&ticket=" + first
	if got := b.whole("GET", use, ""); got.Status != 200 || !strings.Contains(got.Body, "finished") {
		t.Errorf("%+v", got)
	}
	if got := b.whole("GET", use, ""); got.Status != 401 || !strings.HasPrefix(got.Header.Get("Www-Authenticate"), "Bearer ") {
		t.Errorf("used again: %+v", got)
	}
	if got := b.whole("GET", "/v1/workflows?ticket="+ticket("/v1/runs"), ""); got.Status != 401 {
		t.Errorf("elsewhere: %+v", got)
	}
	if got := b.whole("POST", "/v1/runs?ticket="+ticket("/v1/runs"), `{"workflow":"chat","input":"q"}`); got.Status != 401 {
		t.Errorf("for a POST: %+v", got)
	}
	run := readDocument(t, b.do("POST", "/v1/runs", `{"workflow":"chat","input":"q"}`, k.bearer["ann"])).Run
	second := ticket("/v1/runs/" + run)
	if got := b.whole("GET", "/v1/runs/"+run+"/events?ticket="+second, "", "Origin: https://evil.test"); got.Status != 403 {
		t.Errorf("by a page of another site: %+v", got)
	}
	if got := b.whole("GET", "/v1/runs/"+run+"/events?ticket="+second, ""); got.Status != 200 {
		t.Errorf("it was used up by that: %+v", got)
	}
	b.lineOf("reason=ticket")
	for _, secret := range []string{first, second, strings.TrimPrefix(k.bearer["ann"], "Authorization: Bearer ")} {
		if strings.Contains(b.log.String(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
	// Where no keys are needed, a client need not know that.
	open := newBench(t, nil).serve()
	if got := open.whole("POST", "/v1/tickets", `{"path":"/v1/runs"}`); got.Status != 201 {
		t.Errorf("%+v", got)
	}
}

// SE-12: all paths but those of probes are answered under the server's names only.
func TestTheServerAnswersUnderItsNamesOnly(t *testing.T) {
	hosts, err := access.NewHosts([]string{"chat.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(o *Options) { o.Access.Hosts = hosts })
	defer b.s.Close()
	for host, named := range map[string]bool{"localhost:8080": true, "CHAT.example.com:443": true, "chat.example.com.evil.test": false} {
		for path, status := range map[string]int{"/": 200, "/v1/workflows": 200, "/openapi.yaml": 200, "/v1/nothing": 404, "/healthz": 200, "/readyz": 200} {
			want := status
			if !named && path != "/healthz" && path != "/readyz" {
				want = 403
			}
			w := httptest.NewRecorder()
			b.s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://"+host+path, nil))
			if w.Code != want {
				t.Errorf("%s %s: %d, expected %d", host, path, w.Code, want)
			}
		}
	}
}

// SE-11
func TestPagesOfListedSitesUseTheServerAndNoOthers(t *testing.T) {
	const page = "https://app.example.com"
	cors, err := access.NewCORS([]string{page})
	if err != nil {
		t.Fatal(err)
	}
	k := newKeyring(t, "ann:user")
	b := newBench(t, func(o *Options) { o.Access.Door, o.Access.CORS = k.door, cors }).serve()
	for origin, allowed := range map[string]bool{
		page: true, "https://evil.test": false, "null": false,
	} {
		asked := b.whole("OPTIONS", "/v1/runs", "", "Origin: "+origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type")
		sent := b.whole("POST", "/v1/runs", `{"workflow":"chat","input":"q"}`, k.bearer["ann"], "Origin: "+origin, "Sec-Fetch-Site: cross-site")
		refused := b.whole("POST", "/v1/runs", `{}`, "Origin: "+origin, "Sec-Fetch-Site: cross-site")
		want := [3]int{403, 403, 403}
		grant := ""
		if allowed {
			want, grant = [3]int{204, 200, 401}, page
		}
		if got := [3]int{asked.Status, sent.Status, refused.Status}; got != want {
			t.Errorf("%s: %v, want %v", origin, got, want)
		}
		for _, got := range []reply{asked, sent, refused} {
			if g := got.Header.Get("Access-Control-Allow-Origin"); g != grant {
				t.Errorf("%s: allowed is %q", origin, g)
			}
			if got.Header.Get("Access-Control-Allow-Credentials") != "" || !slices.Contains(got.Header.Values("Vary"), "Origin") {
				t.Errorf("%s: %v", origin, got.Header)
			}
		}
	}
}

// SE-16, SE-17
func TestWhoAsksTooMuchWaitsAndNobodyElseDoes(t *testing.T) {
	k := newKeyring(t, "ann:user", "bob:user")
	rate := func(n int) *access.Limits {
		return access.NewLimits(access.LimitsOptions{Requests: access.Rate{PerMinute: n, Burst: n}, Runs: 1})
	}
	b := newBench(t, func(o *Options) { o.Access = Access{Door: k.door, Limits: rate(10), Wrong: rate(5)} }).serve()
	limited := func(got reply) {
		t.Helper()
		if got.Status != 429 || got.Header.Get("Retry-After") == "" || !strings.Contains(got.Body, wire.CodeRateLimited) {
			t.Errorf("%+v", got)
		}
	}
	// One run at once; the other one has hers.
	post := func(key string) reply {
		return b.whole("POST", "/v1/runs", `{"workflow":"steps"}`, key, "Prefer: respond-async")
	}
	post(k.bearer["ann"])
	first := <-b.steps.came
	limited(post(k.bearer["ann"]))
	post(k.bearer["bob"])
	(<-b.steps.came).finish()
	first.finish()
	// Requests.
	var last reply
	for range 12 {
		last = b.whole("GET", "/v1/workflows", "", k.bearer["ann"])
	}
	limited(last)
	if got := b.whole("GET", "/v1/workflows", "", k.bearer["bob"]); got.Status != 200 {
		t.Errorf("another caller: %+v", got)
	}
	// Wrong keys, whatever address is claimed: no proxy is believed here. Those who have right ones go on.
	for i := range 8 {
		last = b.whole("GET", "/v1/workflows", "", "Authorization: Bearer "+strings.Repeat("x", 40), fmt.Sprintf("X-Forwarded-For: 203.0.113.%d", i))
	}
	limited(last)
	if !strings.Contains(last.Body, "too many requests without a valid key") {
		t.Errorf("it does not say of what there was too much: %+v", last)
	}
	if got := b.whole("GET", "/v1/workflows", "", k.bearer["bob"]); got.Status != 200 {
		t.Errorf("a right key from the same address: %+v", got)
	}
	// Probes are never kept out.
	for range 30 {
		if got := b.whole("GET", "/readyz", ""); got.Status != 200 {
			t.Fatalf("%+v", got)
		}
	}
}

func TestWhoHasUsedTooManyTokensBeginsNoRun(t *testing.T) {
	k := newKeyring(t, "ann:user", "bob:user")
	limits := access.NewLimits(access.LimitsOptions{Tokens: access.Rate{PerMinute: 1}})
	b := newBench(t, func(o *Options) { o.Access = Access{Door: k.door, Limits: limits} }).serve()
	limits.Charge("ann", 100)
	for who, want := range map[string]int{"ann": 429, "bob": 200} {
		got := b.whole("POST", "/v1/runs", `{"workflow":"chat","input":"q"}`, k.bearer[who])
		if got.Status != want || want == 429 && (got.Header.Get("Retry-After") == "" || !strings.Contains(got.Body, "tokens")) {
			t.Errorf("%s: %+v", who, got)
		}
	}
}

func TestEveryAnswerHasTheHeadersThatKeepPagesApart(t *testing.T) {
	k := newKeyring(t, "ann:user")
	b := newBench(t, func(o *Options) { o.Access.Door = k.door }).serve()
	for _, path := range []string{"/", "/v1/workflows", "/v1/nothing", "/healthz", "/assets/notices.txt", "/v1/runs?workflow=chat&input=q"} {
		for _, key := range []string{"", k.bearer["ann"]} {
			header := []string{"Accept: text/html, */*"}
			if key != "" {
				header = append(header, key)
			}
			h := b.whole("GET", path, "", header...).Header
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin",
			} {
				if got := h.Values(name); len(got) != 1 || got[0] != want {
					t.Errorf("%s: %s is %q", path, name, got)
				}
			}
			if got := h.Get("Content-Security-Policy"); !strings.Contains(got, "frame-ancestors 'none'") || !strings.Contains(got, "default-src 'none'") {
				t.Errorf("%s: %q", path, got)
			}
		}
	}
}

// answerOf and resumeOf answer a question of a run.
func answerOf(run string) string {
	return `{"id":"c","messages":[{"id":"` + run + `","role":"assistant","parts":[{"type":"tool-x","state":"approval-responded","approval":{"id":"a","approved":true}}]}]}`
}

func resumeOf(run string) string {
	return `{"threadId":"t","runId":"r","messages":[],"resume":[{"interruptId":"` + run + `:3:c1","status":"resolved","payload":{"approved":true}}]}`
}

// runIDs are those that the server makes.
var runIDs = regexp.MustCompile(`\b[a-z2-7]{26}\b`)

// dialed reaches one address, whatever the name in the request.
func dialed(addr string) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}
}

// checkDoor sees that every route says in the words of its clients that somebody does not get in.
func (c *contract) checkDoor(t *testing.T) {
	k := newKeyring(t, "ann:user")
	hosts, err := access.NewHosts(nil)
	if err != nil {
		t.Fatal(err)
	}
	closed := newBench(t, func(o *Options) { o.Access.Door = k.door }).serve()
	slow := func(t *testing.T) *bench { // each time anew: what is used up comes back in a minute
		limits := access.NewLimits(access.LimitsOptions{Requests: access.Rate{PerMinute: 1, Burst: 1}})
		limits.Request("ann")
		return newBench(t, func(o *Options) { o.Access = Access{Door: k.door, Limits: limits} }).serve()
	}
	elsewhere := newBench(t, func(o *Options) { o.Access = Access{Hosts: hosts} }).serve()
	elsewhere.url = strings.Replace(elsewhere.url, "127.0.0.1", "127.0.0.1.evil.test", 1)
	elsewhere.http.Transport = dialed(elsewhere.listener.Addr().String())
	for path, item := range c.doc.Paths.Map() {
		address := strings.NewReplacer("{run}", run.NewID(), "{call}", "c", "{name}", "x", "{id}", "s", "{agent}", "a", "{thread}", "t", "{chat}", "c", "{model}", "m", "{channel}", "c").Replace(path)
		for method, op := range item.Operations() {
			has := func(status string) bool { return op.Responses.Value(status) != nil }
			if has("401") {
				t.Run("without a key/"+method+" "+path, func(t *testing.T) { c.check(t, closed, call{method, address, "", nil, 401, true}) })
				t.Run("too often/"+method+" "+path, func(t *testing.T) {
					c.check(t, slow(t), call{method, address, "", []string{k.bearer["ann"]}, 429, true})
				})
			}
			if has("403") {
				t.Run("under another name/"+method+" "+path, func(t *testing.T) { c.check(t, elsewhere, call{method, address, "", nil, 403, true}) })
			}
			if has("401") == open(path) || path != "/healthz" && path != "/readyz" && !has("403") {
				t.Errorf("%s %s: what is open is not described as such, or the other way", method, path)
			}
		}
	}
}

// SE-16, SE-17: where no keys are needed, an address is a caller. Package access knows which address that is.
func TestWhereNobodyIsAskedAnAddressIsACaller(t *testing.T) {
	proxies, err := access.ParseProxies([]string{"10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	limits := access.NewLimits(access.LimitsOptions{Requests: access.Rate{PerMinute: 3, Burst: 3}, Runs: 1})
	b := newBench(t, func(o *Options) { o.Access.Limits, o.Proxies = limits, proxies })
	defer b.s.Close()
	for i, tt := range []struct {
		name, addr, forwarded string
		want                  int // of the fourth request
	}{
		{"an address", "203.0.113.1:1000", "192.0.2.%d", 429},
		{"an address behind a proxy", "10.1.2.3:1000", "192.0.2.%d, 192.0.2.98", 429},
		{"many addresses behind a proxy", "10.1.2.3:1000", "198.51.100.%d", 200},
		{"a network of IPv6", "[2001:db8::%d]:1000", "", 429},
		{"this machine", "127.0.0.1:1000", "", 200},
	} {
		last := 0
		for n := range 4 {
			number := func(text string) string { return strings.ReplaceAll(text, "%d", strconv.Itoa(10*i+n)) }
			r := httptest.NewRequest("GET", "/v1/workflows", nil)
			r.RemoteAddr = number(tt.addr)
			r.Header.Set("X-Forwarded-For", number(tt.forwarded))
			w := httptest.NewRecorder()
			b.s.Handler().ServeHTTP(w, r)
			last = w.Code
		}
		if last != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, last, tt.want)
		}
	}
}

// SE-21
func TestACallIsApprovedByOneWhoseRoleMayAndWhoSeesTheRun(t *testing.T) {
	k := newKeyring(t, "bob:user", "eve:operator", "root:admin")
	a := newAgentBench(t, func(o *Options, ao *agent.Options) {
		o.Access.Door = k.door
		tools, err := tool.NewSet(tool.Must(tool.New("danger", "Asks an operator.", func(context.Context, struct {
			Place string `json:"place"`
		},
		) (string, error) {
			return "done", nil
		}, tool.WithApproval(tool.Always), tool.WithRole(tool.Operator))))
		if err != nil {
			t.Fatal(err)
		}
		ao.Tools = tools
	})
	a.serve()
	resp := a.do("POST", "/v1/runs", `{"agent":"assistant","session":"s","input":"use danger"}`, k.bearer["bob"], asEvents)
	call, _, stop := a.question(resp)
	defer stop()
	path := resp.Header.Get("Location") + "/approvals/" + call
	for _, tt := range []struct {
		who    string
		status int
	}{{"bob", 403}, {"eve", 404}, {"root", 204}, {"bob", 409}} {
		if got := a.whole("POST", path, `{"decision":"approve"}`, k.bearer[tt.who]); got.Status != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.who, got.Status, got.Body, tt.status)
		}
	}
}

func TestTheTextForEverybodyNamesNothing(t *testing.T) {
	k := newKeyring(t, "ann:user")
	closed := newBench(t, func(o *Options) { o.Access.Door = k.door }).serve()
	if got := closed.whole("GET", "/", ""); strings.Contains(got.Body, "steps") || !strings.Contains(got.Body, "workflow=NAME") || !strings.Contains(got.Body, "Authorization: Bearer") {
		t.Errorf("%s", got.Body)
	}
	open := newBench(t, nil).serve()
	if got := open.whole("GET", "/", ""); strings.Contains(got.Body, "workflow=NAME") || strings.Contains(got.Body, "Bearer") {
		t.Errorf("%s", got.Body)
	}
}
