// Command memory floods a server that may have little memory, as docs/limits.md says it bears it, and prints what became of it.
//
// The server runs in a memory control group of Linux, which needs root. Floods come one after the other, then all at once; another process
// sends them. Meanwhile the server's health is asked for over new connections, and so is that of an idle server beside it:
// what that takes is the machine's part. The server and what asks for its health go before all else that the machine does. Everything is on this machine, and every flood ends by itself.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/program"
)

func main() {
	err := part(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

func part(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "others":
			return othersPart()
		case "probe":
			return probePart(args[1])
		case "flood":
			return floodPart(args[1:])
		}
	}
	return measure(args)
}

// measure measures a server under each limit and prints a table.
func measure(args []string) error {
	f := flag.NewFlagSet("memory", flag.ContinueOnError)
	given := f.String("program", "", "the server's program; where none is named it is built")
	limits := f.String("limits", "512,1024", "memory of the server, in MiB")
	only := f.String("only", "", "one word of the floods to measure")
	verbose := f.Bool("v", false, "show the server's log")
	if err := f.Parse(args); err != nil {
		return err
	}
	binary := &program.Binary{Given: *given}
	defer binary.Close()
	path, err := binary.Path(context.Background())
	if err != nil {
		return err
	}
	fmt.Printf("%d processors; %s; %s/%s; %s\n\n", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, time.Now().Format(time.DateOnly))
	fmt.Println("| limit | flood | answers | streams | peak | gauge | heap | /healthz, median and slowest | idle server, slowest | process |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	for _, text := range strings.Split(*limits, ",") {
		mib, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("a limit is a number of MiB: %w", err)
		}
		m := &machine{path: path, limit: mib << 20, verbose: *verbose}
		if err := m.measure(*only); err != nil {
			return fmt.Errorf("with %d MiB: %w", mib, err)
		}
	}
	return nil
}

// machine is one limit, and what runs under it.
type machine struct {
	path    string
	limit   int64
	verbose bool

	group  *group
	others *exec.Cmd
	model  string // addresses of the others
	slack  string
	feishu string

	server *program.Process
	dirs   []string // of the servers that were started
	admin  string
	base   int64 // of the heap, when nothing has come yet
}

func (m *machine) measure(only string) (err error) {
	if m.group, err = newGroup(m.limit); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.group.remove()) }()
	if err := m.startOthers(); err != nil {
		return err
	}
	defer func() { _ = m.others.Process.Kill(); _ = m.others.Wait() }()
	defer func() {
		if m.server != nil {
			m.server.Kill()
		}
		for _, dir := range m.dirs {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	all := []int{}
	for i := range floods {
		all = append(all, i)
	}
	loads := [][]int{}
	for _, i := range all {
		loads = append(loads, []int{i})
	}
	for _, load := range append(loads, all) {
		name := "all at once"
		if len(load) == 1 {
			name = floods[load[0]].name
		}
		if !strings.Contains(name, only) {
			continue
		}
		if err := m.bear(name, load); err != nil {
			return err
		}
	}
	return nil
}

// startOthers starts the process of what the server talks to.
func (m *machine) startOthers() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	m.others = exec.Command(self, "others")
	m.others.Stderr = os.Stderr
	out, err := m.others.StdoutPipe()
	if err != nil {
		return err
	}
	if err := m.others.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for _, addr := range []*string{&m.model, &m.slack, &m.feishu} {
		if !lines.Scan() {
			return errors.New("the others have not started")
		}
		*addr = lines.Text()
	}
	return nil
}

const workflow = `
name: text
input: {type: object, required: [q], properties: {q: {type: string}}}
bots:
  writer: {prompt: "Answer.", message: "{{ input.q }}", root: answer, format: text}
`

// start starts the server, with an empty folder.
func (m *machine) start() error {
	dir, err := os.MkdirTemp("", "lingserve-memory-")
	if err != nil {
		return err
	}
	m.dirs = append(m.dirs, dir)
	config := fmt.Sprintf(`
model: openai:slow
admin: {addr: "127.0.0.1:0"}
log: {format: json, access: "off"}
agents:
  assistant: {}
providers:
  openai: {key: none, base_url: "http://%s/v1", models: [slow, large, steady]}
channels:
  hook: {type: webhook, ack: result, secret: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", agent: assistant, dm: {policy: open}}
  slack: {token: %s, signing_secret: %s, api: "http://%s/api/", agent: assistant, dm: {policy: open}}
  feishu: {app_id: %s, app_secret: %s, encrypt_key: %s, api: "http://%s", agent: assistant, dm: {policy: open}}
`, m.model, slackToken, slackSecret, m.slack, feishuApp, feishuSecret, feishuKey, m.feishu)
	for name, text := range map[string]string{"lingserve.yaml": config, "workflows/text.yaml": workflow, "workspace/AGENTS.md": "Answer.\n"} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	var says io.Writer
	if m.verbose {
		says = os.Stderr
	}
	m.server, err = program.Start(context.Background(), m.path, dir, &program.Options{By: m.group.by(), Says: says})
	if err != nil {
		return err
	}
	found, err := m.server.Log.Find(context.Background(), adminOpen)
	if err != nil {
		return err
	}
	m.admin = "http://" + found[1]
	m.base, err = m.heap()
	return err
}

var (
	adminOpen = regexp.MustCompile(`"msg":"admin listener is open","addr":"([^"]+)"`)
	gauge     = regexp.MustCompile(`(?m)^lingserve_runs_memory_bytes (\S+)$`)
	heapAlloc = regexp.MustCompile(`# HeapAlloc = (\d+)`)
)

// heap is what lives in the heap, after two collections: what pools hold is given back by the second.
func (m *machine) heap() (int64, error) {
	if _, err := m.ask("/debug/pprof/heap?gc=1"); err != nil {
		return 0, err
	}
	text, err := m.ask("/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	return number(heapAlloc, text)
}

func number(expr *regexp.Regexp, text string) (int64, error) {
	found := expr.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("no %s in what the server says", expr)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	return int64(n), err
}

func (m *machine) ask(path string) (string, error) {
	client := &http.Client{Timeout: 10 * time.Second}
	res, err := client.Get(m.admin + path)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return string(text), err
}

// look is the gauge and the heap above that of an idle server, at about one moment.
type look struct{ gauge, heap int64 }

func (m *machine) look() (look, error) {
	before, err1 := m.gauge()
	heap, err2 := m.heap()
	after, err3 := m.gauge()
	return look{(before + after) / 2, heap - m.base}, errors.Join(err1, err2, err3) // collecting takes time, in which the gauge changes
}

// gauge is what the server says that requests and runs hold.
func (m *machine) gauge() (int64, error) {
	text, err := m.ask("/metrics")
	if err != nil {
		return 0, err
	}
	return number(gauge, text)
}

// bear sends a load to the server and prints what became of it.
func (m *machine) bear(name string, load []int) error {
	if m.server == nil || !m.server.Alive() {
		if err := m.start(); err != nil {
			return err
		}
	}
	kills := m.group.kills()
	m.group.peak()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"flood", m.server.Addr()}
	for _, i := range load {
		args = append(args, strconv.Itoa(i))
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	var outcomes []outcome
	endProbe, err := startProbe(m.server.URL + "/healthz")
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	var best look
	looked := make(chan struct{})
	go func() { // while models take their time
		defer close(looked)
		for range 3 {
			select {
			case <-stop:
				return
			case <-time.After(documentTime / 4):
			}
			if l, err := m.look(); err == nil && l.heap > best.heap {
				best = l
			}
		}
	}()
	out, err := cmd.Output()
	close(stop)
	<-looked
	health, probeErr := endProbe()
	if err := errors.Join(err, probeErr); err != nil {
		return err
	}
	if err := json.Unmarshal(out, &outcomes); err != nil {
		return err
	}
	var answers, ends []string
	for _, o := range outcomes {
		answers = append(answers, counts(o.Statuses))
		if len(o.Ended) > 0 {
			ends = append(ends, counts(o.Ended))
		}
	}
	state := "lives"
	if !m.server.Alive() {
		state = "has ended"
		m.server = nil
	}
	if n := m.group.kills() - kills; n > 0 {
		state = "killed by the kernel"
	}
	fmt.Printf("| %d MiB | %s | %s | %s | %d MiB | %d MiB | %d MiB | %v, %v%s | %v | %s |\n", m.limit>>20, name,
		strings.Join(answers, "; "), cmp.Or(strings.Join(ends, "; "), "–"), m.group.peak()>>20, best.gauge>>20, best.heap>>20,
		ms(health.Server.Median), ms(health.Server.Slowest), failures(health.Server.Failed), ms(health.Idle.Slowest), state)
	return nil
}

func failures(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d failed", n)
}

func ms(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

func counts(of map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		list = append(list, fmt.Sprintf("%d × %s", of[name], name))
	}
	return strings.Join(list, ", ")
}
