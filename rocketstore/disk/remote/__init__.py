"""Files of stores on file systems of fsspec, which are only read: paths, lists of directories, blocks and copies.

``remote_path`` is the path, and ``directory_lists`` decides how long a list is used. ``blocks`` keeps the blocks that
were read last, ``read_parts`` reads many parts at once, and ``remote_file_run`` reads a run of files.
"""
