"""Functions that run in the cloud: one line above each says on what."""

import terradask


@terradask.function(cpu=2, memory="8 GiB", n_workers=[0, 2], keepalive="5 minutes")
def word_count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


if __name__ == "__main__":
    # The first call makes the cluster; the next program that asks for the same finds it.
    print(word_count("one small step"), "words")
    texts = ["a giant leap", "for mankind", ""]
    for number in word_count.map(texts):
        print(number)
    print("here:", word_count.local("in this process"))

    # Without this line it would end by itself five minutes after this program, and stay deployed.
    word_count.cluster.shutdown()
