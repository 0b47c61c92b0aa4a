package storetest_test

import (
	"testing"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store/storetest"
)

func TestMemoryKeepsTheContract(t *testing.T) { storetest.Run(t, storetest.NewMemory(), 100) }
