//go:build !unix

package channel

import "os"

const openMedia = os.O_RDONLY
