"""
Topics of a count table
=======================

A text is a mixture of topics, and a topic makes some words more frequent. Counts are never
negative. Which topics does a table of counts contain, and which words belong to them? We simulate
200 texts of about 500 words each, so that the answer is known.
"""

import matplotlib.pyplot as plt
import numpy as np

import ebcd

rng = np.random.default_rng(0)
words = """
goal match team coach league season striker referee
flour butter oven sugar dough recipe salt bake
vote party minister law budget election reform senate
guitar album concert band song chorus drum tour
the of and to in is it on new time year people
"""
vocabulary = np.array(words.split())
n_topics, own = 4, 8
words = np.zeros((n_topics, vocabulary.size))
for k in range(n_topics):
    words[k, k * own : (k + 1) * own] = rng.dirichlet(np.full(own, 3.0))
words[:, n_topics * own :] = rng.dirichlet(np.full(12, 3.0))  # words of every text
words[2, [2, 4]] = words[3, 5] = 0.1  # team, league, season: words of two topics
words /= words.sum(axis=1, keepdims=True)
shares = rng.dirichlet(np.full(n_topics, 0.3), 200)
counts = rng.poisson(500 * shares @ words)
print(counts.shape, "texts x words,", counts.sum(), "words in total")

# %%
# A prior for topics
# ------------------
#
# With ``point_exponential`` a loading is either zero or positive, so a component is a list of words
# that become more frequent together. This is all that counts need. With the default prior,
# components would contrast topics with each other.

topics = ebcd.EBCD(n_topics, prior="point_exponential").fit(counts)
contrasts = ebcd.EBCD(n_topics).fit(counts)
for k in range(topics.n_components_):
    top = topics.top_features(k, 6, vocabulary)
    print(f"{k}:", ", ".join(f"{word.name} {word.loading:.1f}" for word in top))

# %%
# The figure shows all words, grouped by topic, with the common words last. Each topic is matched
# with the most similar component, as measured by the cosine over the words that belong to topics.


def matched(components):
    found, truth = components[:, : n_topics * own], words[:, : n_topics * own]
    size = np.linalg.norm(found, axis=1) * np.linalg.norm(truth, axis=1)[:, None]
    cosines = truth @ found.T / size
    best = np.abs(cosines).argmax(axis=1)
    rows = np.arange(n_topics)
    return components[best] * np.sign(cosines[rows, best])[:, None], np.abs(cosines[rows, best])


figure, axes = plt.subplots(3, 1, figsize=(9, 5.2), layout="constrained", sharex=True)
rows = {"truth": (words, None)}
rows["point_exponential"] = matched(topics.components_)
rows["point_laplace, the default"] = matched(contrasts.components_)
for ax, (title, (loadings, cosines)) in zip(axes, rows.items(), strict=True):
    reach = np.abs(loadings).max()
    ax.imshow(loadings, aspect="auto", cmap="RdBu", vmin=-reach, vmax=reach)
    if cosines is not None:
        title += f": cosines with the truth {', '.join(f'{c:.2f}' for c in cosines)}"
    ax.set_title(title, fontsize="medium")
    ax.set_ylabel("topic")
    ax.set_yticks(range(n_topics))
axes[-1].set_xticks(range(vocabulary.size), vocabulary, rotation=90, fontsize=7)
plt.show()

# %%
# The shares of topics in a text add up to one, so more of one topic means less of the others, and
# their true scores are negatively correlated. Those of the model are uncorrelated, which is why the
# fit is close but not perfect. Words that occur in every text hardly vary and are not part of any
# component.
