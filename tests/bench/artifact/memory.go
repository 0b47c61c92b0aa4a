package artifact

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// anonymous samples the anonymous memory of this process and its children together until stop; the result is the peak in KiB.
func anonymous() (stop func() int64) {
	done, peak := make(chan struct{}), make(chan int64)
	go func() {
		most := int64(0)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			sum := rssAnon("self")
			for _, pid := range children() {
				sum += rssAnon(pid)
			}
			most = max(most, sum)
			select {
			case <-done:
				peak <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 { close(done); return <-peak }
}

// processor is the time that this process and the children that have ended have used.
func processor() time.Duration {
	var total int64
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			total += u.Utime.Nano() + u.Stime.Nano()
		}
	}
	return time.Duration(total)
}

func children() (pids []string) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err == nil {
			pids = append(pids, strings.Fields(string(b))...)
		}
	}
	return pids
}

func rssAnon(pid string) (kib int64) {
	f, err := os.Open("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "RssAnon:"); ok {
			_, _ = fmt.Sscan(rest, &kib)
			return kib
		}
	}
	return 0
}
