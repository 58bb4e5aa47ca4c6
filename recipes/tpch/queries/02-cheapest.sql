-- The cheapest supplier of each part of a size, in one region.
select distinct on (ps_partkey) ps_partkey, s_name, ps_supplycost
from partsupp join part on p_partkey = ps_partkey join supplier on s_suppkey = ps_suppkey
join nation on n_nationkey = s_nationkey join region on r_regionkey = n_regionkey
where p_size = 15 and r_name = 'EUROPE' order by ps_partkey, ps_supplycost limit 100;
