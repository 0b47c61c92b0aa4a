package ports

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReservationsHoldUntilRelease(t *testing.T) {
	port, err := Free()
	require.NoError(t, err)
	other, err := Free()
	require.NoError(t, err)
	require.NotEqual(t, port, other)
	dir := filepath.Join(os.TempDir(), "cozy-etcd-ports-"+strconv.Itoa(os.Getuid()))
	require.Nil(t, reserve(dir, port), "another process finds the port taken although nobody listens")
	l, err := net.Listen("tcp", Join(port))
	require.NoError(t, err, "the holder may listen")
	Release(port, other)
	require.Nil(t, reserve(dir, port), "a port that is listened on is never free")
	require.NoError(t, l.Close())
	again := reserve(dir, port)
	require.NotNil(t, again)
	require.NoError(t, again.Close())
}
