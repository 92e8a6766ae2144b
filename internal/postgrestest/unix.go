//go:build unix

package postgrestest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
)

// Start starts a server that its socket reaches, with settings of the form name=value.
func Start(settings ...string) (*Server, error) { return StartWith(Options{Settings: settings}) }

// StartWith starts a server.
func StartWith(o Options) (_ *Server, err error) {
	if !longtest.Nightly() {
		return nil, ErrMissing
	}
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	// The path of a socket is short, and its folder one that the server's user can reach: t.TempDir is neither.
	dir, err := os.MkdirTemp("", "pg")
	if err == nil && len(dir) > 80 {
		_ = os.Remove(dir)
		dir, err = os.MkdirTemp("/tmp", "pg")
	}
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin, o: o}
	defer func() {
		if err != nil {
			_ = s.Stop()
		}
	}()
	as, err := other()
	if err != nil {
		return nil, err
	}
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			return nil, err
		}
	}
	init := exec.Command(filepath.Join(bin, "initdb"), "-D", s.data(), "-U", User, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	init.Dir, init.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := init.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, said(out))
	}
	if o.Listen != "" {
		if err := s.trust(); err != nil {
			return nil, err
		}
	}
	return s, s.Restart()
}

// trust lets every client of the server's networks in.
func (s *Server) trust() error {
	f, err := os.OpenFile(filepath.Join(s.data(), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("host all all samenet trust\n")
	return errors.Join(err, f.Close())
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// other is who the server runs as where this is root, whom it refuses.
func other() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}

// watcher runs the server until nothing more can come from its input: then whoever started it has ended. The server alone has file 3.
const watcher = `"$0" "$@" & exec 3>&-; cat >/dev/null; kill -QUIT $! 2>/dev/null; wait $!`

// Restart starts the server again that was killed, and waits until it can be used.
func (s *Server) Restart() (err error) {
	as, err := other()
	if err != nil {
		return err
	}
	command, err := s.command(as)
	if err != nil {
		return err
	}
	if len(s.o.By) > 0 {
		as = nil // the command becomes another user
	}
	const long = time.Minute
	for began := time.Now(); time.Since(began) < long; s.end() {
		if err := s.start(command, as); err != nil {
			return err
		}
		for !s.ended(20*time.Millisecond) && time.Since(began) < long {
			if s.ready() {
				return nil
			}
		}
	}
	out, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return fmt.Errorf("PostgreSQL does not start: %s", said(out))
}

// start starts the watcher and the server.
func (s *Server) start(command []string, as *syscall.Credential) (err error) {
	var files []*os.File // of the new processes
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	files = append(files, log)
	in, alive, err := os.Pipe()
	if err != nil {
		return err
	}
	files = append(files, in)
	out, held, err := os.Pipe()
	if err != nil {
		return errors.Join(err, alive.Close())
	}
	files = append(files, held)
	run := exec.Command(command[0], command[1:]...)
	// In a group of its own: what a terminal sends to the tests would end the watcher before the server.
	run.Dir, run.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: as, Setpgid: true}
	run.Stdin, run.Stdout, run.Stderr, run.ExtraFiles = in, log, log, []*os.File{held}
	if err := run.Start(); err != nil {
		return errors.Join(err, alive.Close(), out.Close())
	}
	s.run, s.alive, s.held = run, alive, out
	return nil
}

// ended waits for the end of the server and all of its processes, at most so long, and says whether it has come.
func (s *Server) ended(most time.Duration) bool {
	if err := s.held.SetReadDeadline(time.Now().Add(most)); err != nil {
		return false
	}
	_, err := s.held.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// command starts the server.
func (s *Server) command(as *syscall.Credential) ([]string, error) {
	command := slices.Clone(s.o.By)
	if len(command) > 0 && as != nil {
		command = append(command, "setpriv", fmt.Sprint("--reuid=", as.Uid), fmt.Sprint("--regid=", as.Gid), "--clear-groups")
	}
	host, port := "", "5432"
	if s.o.Listen != "" {
		var err error
		if host, port, err = net.SplitHostPort(s.o.Listen); err != nil {
			return nil, err
		}
	}
	command = append(command, "/bin/sh", "-c", watcher, filepath.Join(s.bin, "postgres"), "-D", s.data(), "-k", s.dir, "-h", host, "-p", port,
		"-c", "max_connections=300", "-c", "fsync=on")
	for _, setting := range s.o.Settings {
		command = append(command, "-c", setting)
	}
	return command, nil
}

// ready says whether the server takes connections.
func (s *Server) ready() bool {
	c, err := net.Dial("unix", s.Socket())
	if err != nil {
		return false
	}
	_ = c.Close()
	status, _ := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	return strings.Contains(string(status), "ready")
}

// pid is that of the server; 0 where there is none.
func (s *Server) pid() int {
	text, _ := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	line, _, _ := strings.Cut(string(text), "\n")
	pid, _ := strconv.Atoi(line)
	return pid
}

// end lets the watcher end the server, and waits for both and all processes of the server.
func (s *Server) end() {
	if s.run == nil {
		return
	}
	_ = s.alive.Close()
	if !s.ended(10 * time.Second) { // the shell starts it with SIGQUIT ignored, until it comes to its own handler
		s.kill(-s.run.Process.Pid)
	}
	_ = s.run.Wait()
	_ = s.held.Close()
	s.run = nil
}

// Kill ends the server with all of its processes, in the middle of what they do.
func (s *Server) Kill() error {
	pid := s.pid()
	if pid == 0 || s.run == nil {
		return errors.New("the server does not run")
	}
	s.kill(pid)
	s.end()
	return nil
}

// kill ends a process, or a group if it is negative, and then the server's processes until there are none: one that was added meanwhile would
// wait for ever for a lock that another one had when it was killed, and keep the memory, without which no server starts.
func (s *Server) kill(pid int) {
	_ = signal(syscall.SIGKILL, pid)
	for ended := false; !ended; ended = s.ended(time.Millisecond) {
		_ = signal(syscall.SIGKILL, s.processes()...)
	}
}

// signal sends a signal to processes, some of which may have ended.
func signal(what syscall.Signal, pids ...int) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, what); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// Pause stops the server with all of its processes where they are; Resume lets them go on.
func (s *Server) Pause() error {
	pid := s.pid()
	if pid == 0 || s.run == nil {
		return errors.New("the server does not run")
	}
	if err := signal(syscall.SIGSTOP, pid); err != nil { // no process is added to those that it has
		return err
	}
	return signal(syscall.SIGSTOP, s.processes()...)
}

func (s *Server) Resume() error {
	pid := s.pid()
	if pid == 0 || s.run == nil {
		return errors.New("the server does not run")
	}
	return signal(syscall.SIGCONT, append(s.processes(), pid)...)
}

// CrashOne kills a process that serves a client: the server ends all others and recovers. It waits until that is done.
func (s *Server) CrashOne() error {
	for _, pid := range s.processes() {
		title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.HasPrefix(string(title), "postgres: "+User+" ") {
			return s.crash(pid)
		}
	}
	return errors.New("the server has no client")
}

func (s *Server) crash(pid int) error {
	log := filepath.Join(s.dir, "log")
	before, err := os.Stat(log)
	if err == nil {
		err = signal(syscall.SIGKILL, pid)
	}
	const long = time.Minute
	for began := time.Now(); err == nil && time.Since(began) < long; time.Sleep(20 * time.Millisecond) {
		var text []byte
		if text, err = os.ReadFile(log); err == nil && strings.Contains(string(text[before.Size():]), "ready to accept connections") {
			return nil
		}
	}
	return cmp.Or(err, errors.New("PostgreSQL does not recover"))
}

// Shutdown ends the server as a system does: transactions are broken off, and all that was committed is written.
func (s *Server) Shutdown() error {
	pid := s.pid()
	if pid == 0 || s.run == nil {
		return errors.New("the server does not run")
	}
	if err := signal(syscall.SIGINT, pid); err != nil {
		return err
	}
	const long = time.Minute
	for began := time.Now(); s.pid() != 0; time.Sleep(5 * time.Millisecond) { // it removes the file at its end
		if time.Since(began) > long {
			return errors.New("PostgreSQL does not end")
		}
	}
	s.end()
	return nil
}

// processes are those of the server, which all work in its folder. Where the system does not tell, there seem to be none: they see by
// themselves that the server has ended.
func (s *Server) processes() (pids []int) {
	data, err := filepath.EvalSymlinks(s.data())
	found, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, path := range found {
		if dir, e := os.Readlink(path); err == nil && e == nil && dir == data {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Stop ends the server and removes what it had.
func (s *Server) Stop() error {
	s.end()
	return os.RemoveAll(s.dir)
}
