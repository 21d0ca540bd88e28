// A network cable between two network namespaces, as bad as it is told to be:
// `wire NAMESPACE NAME NAMESPACE NAME SEED`.
//
// Makes a TAP interface of that name in each namespace and carries Ethernet frames between the two. Linux's netem does
// this inside the kernel, where it is there; it often is not, and then nothing else loses packets. The conditions come
// as lines on stdin, "LOSS DELAY RATE CUT": the share of frames that is lost, seconds that each takes, bits a second
// (0: any number), and 1 where none passes; each is answered by "ok". It ends when stdin does.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>

namespace {

// Of frames that wait for the wire, as a switch's buffer holds; then they are lost.
constexpr double kQueueSeconds = 0.25;

struct Conditions {
  double loss = 0, delay = 0, rate = 0;
  int cut = 0;
};

struct Frame {
  double at;  // when it arrives
  std::string data;
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Check(bool fine, const char* what) {
  if (!fine) {
    std::perror(what);
    std::exit(1);
  }
}

int Tap(const std::string& name_space, const char* name) {
  const int net = open(("/run/netns/" + name_space).c_str(), O_RDONLY | O_CLOEXEC);
  Check(net >= 0 && setns(net, CLONE_NEWNET) == 0, "the namespace");
  close(net);
  const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  Check(tap >= 0, "/dev/net/tun");
  ifreq asked;
  std::memset(&asked, 0, sizeof(asked));
  std::strncpy(asked.ifr_name, name, IFNAMSIZ - 1);
  asked.ifr_flags = IFF_TAP | IFF_NO_PI;
  Check(ioctl(tap, TUNSETIFF, &asked) == 0, "TUNSETIFF");
  return tap;
}

// One direction.
class Way {
 public:
  Way(int from, int to) : from_(from), to_(to) {}

  void Take(const Conditions& conditions, std::mt19937_64* random) {
    for (;;) {
      const ssize_t bytes = read(from_, buffer_, sizeof(buffer_));
      if (bytes <= 0) return;
      if (conditions.cut || std::uniform_real_distribution<>()(*random) < conditions.loss) continue;
      const double now = Now();
      double sent = now;
      if (conditions.rate > 0) {
        free_at_ = free_at_ > now ? free_at_ : now;
        if (free_at_ - now > kQueueSeconds) continue;
        sent = free_at_ += 8.0 * bytes / conditions.rate;
      }
      frames_.push_back({sent + conditions.delay, std::string(buffer_, bytes)});
    }
  }

  // Hands over what has arrived; returns the seconds until the next frame does, below 0 where there is none.
  double Give(const Conditions& conditions) {
    if (conditions.cut) frames_.clear();
    const double now = Now();
    while (!frames_.empty() && frames_.front().at <= now) {
      const std::string& data = frames_.front().data;
      if (write(to_, data.data(), data.size()) < 0) { /* the interface is down, or its queue is full: lost */ }
      frames_.pop_front();
    }
    return frames_.empty() ? -1.0 : frames_.front().at - now;
  }

 private:
  int from_, to_;
  double free_at_ = 0;
  std::deque<Frame> frames_;
  char buffer_[1 << 16];
};

}  // namespace

int main(int, char** arguments) {
  const int one = Tap(arguments[1], arguments[2]), other = Tap(arguments[3], arguments[4]);
  std::mt19937_64 random(std::strtoull(arguments[5], nullptr, 10));
  static Way ways[] = {{one, other}, {other, one}};
  Conditions conditions;
  std::string said;
  if (write(1, "ok\n", 3) != 3) return 1;
  for (;;) {
    double wait = -1;
    for (Way& way : ways) {
      const double next = way.Give(conditions);
      if (next >= 0 && (wait < 0 || next < wait)) wait = next;
    }
    pollfd polled[] = {{one, POLLIN, 0}, {other, POLLIN, 0}, {0, POLLIN, 0}};
    timespec limit = {static_cast<time_t>(wait), static_cast<long>((wait - static_cast<time_t>(wait)) * 1e9)};
    ppoll(polled, 3, wait < 0 ? nullptr : &limit, nullptr);
    if (polled[2].revents) {
      char text[256];
      const ssize_t bytes = read(0, text, sizeof(text));
      if (bytes <= 0) return 0;
      said.append(text, bytes);
      for (size_t end; (end = said.find('\n')) != std::string::npos; said.erase(0, end + 1)) {
        std::sscanf(said.c_str(), "%lf %lf %lf %d", &conditions.loss, &conditions.delay, &conditions.rate,
                    &conditions.cut);
        if (write(1, "ok\n", 3) != 3) return 1;
      }
    }
    for (Way& way : ways) way.Take(conditions, &random);
  }
}
