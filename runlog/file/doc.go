// Package file keeps runs in a folder as they go, for those who come back after a crash (FT-23):
//
//	<number>.log   what all runs have sent, as their tubes have it, in frames
//
// One goroutine looks at the tubes of all runs several times a second and writes what is new with one write: who sends does nothing for
// it and waits for nothing, and ten thousand runs take one file. The oldest file goes when it is too old, or all take too much: the runs
// that began in it are then written anew, by what they have folded to. All files go when no run is kept any more.
//
// # Files
//
// A file is a head (its mark, and eight random bytes) and frames: length, checksum, and records. The checksum is of the frame's place,
// too, so that neither the zeros, nor the pieces of other files, nor the pages in another order that the end of a machine can leave are
// taken for one (FT-24). A damaged frame is skipped, and the log names its file and offset: the frames behind it are read, and a run that a
// frame was of comes as far as it came before. A damaged head costs its file, for each checksum needs it (DO-06). Files of the mark before
// are read, too: in them a run's id and the number of its first event stand in its opening.
//
// # Disks that fail
//
// When a write or a sync fails the file is not used any more (FT-26): a sync that fails may have dropped what it was for, and one more
// would say that all is well. The runs go on; each is told [runlog.ErrAway], and all of them are written anew into another file as soon
// as that can be done (FT-25).
package file
