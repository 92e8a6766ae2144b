package run

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/crcline"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

// disk keeps ended runs in a folder:
//
//	runs/<run>.jsonl   a line with the outcome, then the tube's archive, then a checksum
//	lock               held by the server that uses the folder
//
// A file of a run appears whole or not at all: it is written beside its place and renamed. Nobody waits for the disk to turn: what is kept
// survives the end of the process at once, and that of the machine a second later, see settler.
type disk struct {
	root    vfs.Folder
	lock    vfs.File
	settler settler
}

// stored is an ended run that is on disk.
type stored struct {
	owner   string
	expires time.Time
	size    int64
}

const (
	runsFolder = "runs"
	lockFile   = "lock"
	suffix     = ".jsonl"
	temporary  = ".tmp"
	// maxHeader bounds the line with the outcome when it is read back.
	maxHeader = 8 << 20
)

// openDisk opens the folder, making it where it is not there.
func openDisk(folder string) (*disk, error) {
	return openDiskIn(vfs.At(folder), folder)
}

// openDiskIn opens the folder dir; errors call it folder.
func openDiskIn(dir vfs.Dir, folder string) (*disk, error) {
	root, err := dir.Open()
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	d := &disk{root: root}
	d.settler.d = d
	if err := d.open(); err != nil {
		err = fmt.Errorf("cannot write to the data folder %s: %w", folder, err)
		if errors.Is(err, errInUse) {
			err = inUse(folder)
		}
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// errInUse says that another process has the folder.
var errInUse = errors.New("another server is using it")

func inUse(folder string) error {
	return fmt.Errorf("data folder %s: %w; give each server one of its own (--data)", folder, errInUse)
}

func (d *disk) open() (err error) {
	// First of all: what another server is writing must not be touched.
	if d.lock, err = d.root.Open(lockFile, os.O_CREATE|os.O_WRONLY); err != nil {
		return err
	}
	switch ok, err := d.lock.TryLock(); {
	case err != nil:
		return err
	case !ok:
		return errInUse
	}
	if err := d.root.Mkdir(runsFolder); err != nil {
		return err
	}
	// The runs are written while the server serves; better to know now that they cannot be.
	probe := runsFolder + "/probe" + temporary
	f, err := d.root.Open(probe, os.O_CREATE|os.O_WRONLY)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), d.root.Remove(probe)); err != nil {
		return err
	}
	return d.root.SyncFolder(".") // the names of what may just have been made
}

func (d *disk) close() error {
	d.settler.close()
	var err error
	if d.lock != nil {
		err = errors.Join(d.lock.Unlock(), d.lock.Close())
	}
	return errors.Join(err, d.root.Close())
}

// FileOf names the file of a run. Ids are ours and need no escaping; one that is not does not reach the disk.
func FileOf(run string) string { return runsFolder + "/" + run + suffix }

// header is the first line of a run's file.
type header struct {
	Run   string `json:"run"`
	Owner string `json:"owner,omitempty"`
	Subject
	Keyed bool      `json:"keyed,omitempty"`
	Lost  bool      `json:"lost,omitempty"`
	Began time.Time `json:"began"`
	Result
}

func headerOf(r *Run) header {
	return header{r.ID, r.owner, r.Of, r.Keyed, r.Lost, r.Began.Round(0), r.result}
}

// save writes an ended run and returns the size of its file.
func (d *disk) save(r *Run) (size int64, err error) {
	if !ValidID(r.ID) {
		return 0, fmt.Errorf("%q cannot name a file", r.ID)
	}
	head, err := json.Marshal(headerOf(r))
	if err != nil {
		return 0, err
	}
	place := FileOf(r.ID)
	beside := place + temporary
	f, err := d.root.Open(beside, os.O_CREATE|os.O_TRUNC|os.O_WRONLY)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = d.root.Remove(beside)
		}
	}()
	sum := crcline.New()
	out := io.MultiWriter(f, sum)
	n, err := out.Write(append(crcline.Append(head[:len(head)-1], 0), '\n'))
	size = int64(n)
	if err == nil {
		var n int64
		n, err = r.tube.WriteTo(out)
		size += n
	}
	if err == nil {
		n, err = f.Write(appendSum(nil, sum))
		size += int64(n)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	return size, d.root.Rename(beside, place)
}

// load reads an ended run back.
func (d *disk) load(id string, maxLog int) (*Run, error) {
	f, err := d.root.Open(FileOf(id), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	want, size, err := readSum(f)
	if err != nil {
		return nil, err
	}
	sum := crcline.New()
	in := bufio.NewReader(io.TeeReader(io.LimitReader(f, size), sum))
	h, err := readHeader(id, in)
	if err != nil {
		return nil, err
	}
	t, err := tube.Restore(id, in, TubeOptions(maxLog))
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return nil, err
	}
	if !bytes.Equal(want, appendSum(nil, sum)) {
		return nil, errors.New("its checksum does not match")
	}
	r := &Run{
		ID: id, Of: h.Subject, owner: h.Owner, tube: t, Keyed: h.Keyed, Lost: h.Lost, Began: h.Began,
		result: h.Result, done: make(chan struct{}), entry: noLog{},
	}
	close(r.done)
	return r, nil
}

// sumMark is what the last line of a run's file begins with, the checksum of all before it.
const sumMark = "crc "

// appendSum appends that line.
func appendSum(dst []byte, sum hash.Hash32) []byte {
	return fmt.Appendf(dst, sumMark+"%08x\n", sum.Sum32())
}

// readSum reads that line. size is the number of bytes before it.
func readSum(f vfs.File) (line []byte, size int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	line = appendSum(nil, crcline.New())
	size = st.Size() - int64(len(line))
	if size < 0 {
		return nil, 0, errors.New("the file is too short")
	}
	if _, err := f.ReadAt(line, size); err != nil {
		return nil, 0, err
	}
	return line, size, nil
}

// readHeader reads and checks the first line of a run's file.
func readHeader(id string, in *bufio.Reader) (h header, err error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > maxHeader {
			return h, fmt.Errorf("read outcome: %w", err)
		}
	}
	if _, has, matches := crcline.Cut(bytes.TrimSuffix(line, []byte("\n"))); !has || !matches {
		return h, errors.New("read outcome: its checksum is missing or does not match")
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, fmt.Errorf("read outcome: %s", wording.ClipTo(err.Error(), 200)) // an error of a time has all of its text
	}
	if h.Run != id {
		return h, fmt.Errorf("the file holds another run, %q", wording.Clip(h.Run))
	}
	return h, nil
}

// header reads whose run a file holds, and whether it has a key, which has to be known before anyone asks for it.
func (d *disk) header(id string) (header, error) {
	f, err := d.root.Open(FileOf(id), os.O_RDONLY)
	if err != nil {
		return header{}, err
	}
	defer f.Close()
	return readHeader(id, bufio.NewReader(f))
}

// TubeOptions are those of tubes that no manager makes.
func TubeOptions(maxLog int) *tube.Options {
	return &tube.Options{MaxBytes: maxLog, Document: func() tube.Document { return new(jsonuri.Document) }}
}

func (d *disk) remove(id string) error {
	err := d.root.Remove(FileOf(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// list finds the runs on disk with the times of their files, and removes what a crash has left half written; so it is only
// for the start, when nothing is being written.
func (d *disk) list() (map[string]fs.FileInfo, error) {
	found := map[string]fs.FileInfo{}
	err := d.root.List(runsFolder, func(e fs.DirEntry) bool {
		if strings.HasSuffix(e.Name(), temporary) {
			_ = d.root.Remove(runsFolder + "/" + e.Name())
			return true
		}
		id, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || !ValidID(id) || !e.Type().IsRegular() {
			return true
		}
		if info, err := e.Info(); err == nil {
			found[id] = info
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
