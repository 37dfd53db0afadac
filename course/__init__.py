"""What the notebooks on disaggregated prefill and decode import.

Units, the catalogue of links and models, the checks with their hints, the figures and the
explorer. Learners have this package installed, so it holds no answer: wherever a picture or a
verdict needs one of the lesson's five functions, it calls the learner's own.
"""
